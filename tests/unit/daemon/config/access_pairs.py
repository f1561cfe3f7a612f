#!/usr/bin/env python3
"""access_pairs.py COUNT: random rules of [access] and addresses, with the verdict of Python's ipaddress.

Lines: allow|deny|address|verdict, networks separated by blanks, verdict 1 or 0."""
import ipaddress
import random
import sys


def network(source):
    bits, kind = (32, ipaddress.IPv4Network) if source.random() < 0.6 else (128, ipaddress.IPv6Network)
    prefix = source.choice([0, 1, bits // 4, bits // 2, bits - 8, bits - 1, bits, source.randint(0, bits)])
    number = source.getrandbits(bits)
    return kind((number >> (bits - prefix) << (bits - prefix), prefix))


def address(source, networks):
    """Usually in or just outside of one of the networks."""
    if not networks or source.random() < 0.2:
        one = network(source)
    else:
        one = source.choice(networks)
    size = one.num_addresses
    kind = ipaddress.IPv4Address if one.version == 4 else ipaddress.IPv6Address
    number = int(one.network_address) + source.choice([0, size - 1, size, -1, source.randrange(size)])
    return kind(number % (1 << one.max_prefixlen))


def main():
    source = random.Random(20)
    for _ in range(int(sys.argv[1])):
        allow = [network(source) for _ in range(source.choice([0, 1, 2, 3, 200]))]
        deny = [network(source) for _ in range(source.choice([0, 0, 1, 2, 200]))]
        one = address(source, allow + deny)
        if one.version == 6 and (one.ipv4_mapped is not None or int(one) == 0):
            one = ipaddress.IPv6Address(int(one) | 1 << 100)  # an IPv4 address, or none, to the server
        verdict = not any(one in net for net in deny) and (not allow or any(one in net for net in allow))
        print("|".join((" ".join(map(str, allow)), " ".join(map(str, deny)), str(one), str(int(verdict)))))


main()
