"""session-load.py PORT SECONDS HOSTS: a mixed, moderate load: popular and rare pages, errors, large files; for as many
hosts, the first ones most often, and some for none of them."""
import http.client
import math
import random
import sys
import threading
import time

port, seconds, hosts = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
start = time.monotonic()
agents = ["Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0", "curl/8.8.0", "Mozilla/5.0 (compatible; bot/2.1)"]
referers = ["", "https://example.org/", "https://search.example/q=web+server"]
pages = (["/"] * 20 + ["/style.css"] * 12 + ["/script.js"] * 8 + ["/images/lanes.svg"] * 6 + ["/about.html"] * 5
         + [f"/note-{i}.html" for i in range(1, 41)] + ["/handbook.pdf"] * 2 + ["/missing.html"] * 3
         + ["/wp-login.php", "/film.mp4", "/images"])
names = (["www.example.org", "the-online-shop-with-a-rather-long-name.department.example.com"]
         + [f"site-{i}.example" for i in range(3, hosts + 1)])[:hosts] + ["other.example"]


def client(number):
    choice = random.Random(number)
    source = (f"127.0.0.{10 + number}", 0)
    while time.monotonic() < start + seconds:
        connection = http.client.HTTPConnection("127.0.0.1", port, source_address=source)
        try:
            for _ in range(choice.randint(5, 60)):
                headers = {"User-Agent": agents[number % 3], "Referer": choice.choice(referers)}
                if hosts > 0:
                    headers["Host"] = names[min(int(choice.paretovariate(0.6)), hosts + 1) - 1]
                connection.request("GET", choice.choice(pages), headers=headers)
                connection.getresponse().read()
                wave = 1 + 0.8 * math.sin((time.monotonic() - start) / 17)
                time.sleep(choice.expovariate(1) * 0.06 * wave)
        except (OSError, http.client.HTTPException):
            time.sleep(0.2)
        connection.close()


threads = [threading.Thread(target=client, args=(n,)) for n in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
