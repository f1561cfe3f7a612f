#!/usr/bin/env python3
"""Checks the manuals as pages of the sample site.

    check_html.py WWW HTML PAGE...

HTML contains a page for each manual PAGE and an index; WWW is the sample site, which serves HTML as /manual/. Elements
are closed in order, all links within the site have a target, and no page needs what a strict Content-Security-Policy
forbids: styles and scripts within the page, or anything of another site but links.
"""
import html.parser
import pathlib
import sys

VOID = {"meta", "link", "br", "img", "hr", "input", "col"}


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.path, self.open, self.ids, self.links, self.faults = path, [], set(), [], []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        self.faults += [f"<{tag}> is not closed" for tag in self.open]

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("style", "script") or "style" in attributes or any(name.startswith("on") for name in attributes):
            self.faults.append(f"line {self.getpos()[0]}: style or script within the page")
        if "id" in attributes:
            self.ids.add(attributes["id"])
        for name in ("href", "src"):
            if name in attributes:
                self.links.append((tag, attributes[name]))

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"line {self.getpos()[0]}: </{tag}> does not close the last element")


def target_of(page, link, site, manuals):
    """The file that LINK names, and the part of it."""
    path, _, part = link.partition("#")
    if not path:
        return page.path, part
    if path.startswith("/manual/"):
        return manuals / (path.removeprefix("/manual/") or "index.html"), part
    return site / (path.removeprefix("/") or "index.html"), part


def check(page, pages, site, manuals):
    yield from page.faults
    for tag, link in page.links:
        if link.startswith("https://"):
            if tag != "a":
                yield f"<{tag}> loads {link}"
            continue
        path, part = target_of(page, link, site, manuals)
        if not path.is_file():
            yield f"{link} leads nowhere"
        elif part and part not in pages[path.name].ids:
            yield f"{link}: {path.name} has no such part"


def main(site, manuals, *sources):
    site, manuals = pathlib.Path(site), pathlib.Path(manuals)
    pages = {path.name: Page(path) for path in sorted(manuals.glob("*.html"))}
    wanted = {pathlib.Path(source).name + ".html" for source in sources} | {"index.html"}
    faults = [f"{name} is missing" for name in sorted(wanted - set(pages))]
    faults += [f"{name} belongs to no manual" for name in sorted(set(pages) - wanted)]
    listed = {link for _, link in pages["index.html"].links}
    faults += [f"the index lacks {name}" for name in sorted(wanted) if name != "index.html" and f"/manual/{name}" not in listed]
    for name in ("index.html", "about.html", "exercises.html"):
        if '<a href="/manual/"' not in (site / name).read_text(encoding="utf-8"):
            faults.append(f"www/{name} does not link to the manuals")
    for name, page in pages.items():
        faults += [f"{name}: {fault}" for fault in check(page, pages, site, manuals)]
    print(f"{len(pages)} pages")
    print(*faults, sep="\n")
    return 1 if faults else 0


sys.exit(main(*sys.argv[1:]))
