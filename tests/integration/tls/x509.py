"""Reads certificates in DER, without a program for each. Python's ssl decodes only those that it verifies."""
import base64
import calendar
import functools
import time

COMMON_NAME, ALT_NAME, AUTHORITY_KEY = bytes.fromhex("550403"), bytes.fromhex("551d11"), bytes.fromhex("551d23")
DNS_NAME, KEY_ID, EXTENSIONS = 0x82, 0x80, 0xa3


def elements(data):
    """Pairs of tag and content of the DER elements in DATA."""
    found, at = [], 0
    while at < len(data):
        tag, length, at = data[at], data[at + 1], at + 2
        if length & 0x80:
            size = length & 0x7f
            length, at = int.from_bytes(data[at:at + size], "big"), at + size
        found.append((tag, data[at:at + length]))
        at += length
    return found


def inside(data):
    """The contents of the elements in DATA, without their tags."""
    return [content for _, content in elements(data)]


def common_name(name):
    for part in inside(name):
        for kind, value in map(inside, inside(part)):
            if kind == COMMON_NAME:
                return value.decode()
    return None


def seconds(text):
    """Of a time, which with two digits of the year is of this century."""
    return calendar.timegm(time.strptime(("20" if len(text) == 13 else "") + text.decode(), "%Y%m%d%H%M%SZ"))


class Certificate:
    """ISSUER and SUBJECT are common names; SERIAL is the content of the number; NOT_AFTER is in seconds."""

    def __init__(self, der):
        fields = elements(inside(inside(der)[0])[0])
        _, self.serial, _, issuer, validity, subject = [content for _, content in fields[:6]]
        self.not_after = seconds(inside(validity)[1])
        self.issuer, self.subject = common_name(issuer), common_name(subject)
        self.extensions = {}
        for extensions in (content for tag, content in fields if tag == EXTENSIONS):
            for words in map(inside, inside(inside(extensions)[0])):
                self.extensions[words[0]] = words[-1]  # between them may be: critical

    def alternative_names(self):
        """As DNS:name; of other kinds the number of the kind."""
        names = elements(inside(self.extensions[ALT_NAME])[0]) if ALT_NAME in self.extensions else []
        return [f"DNS:{value.decode()}" if tag == DNS_NAME else f"{tag & 0x1f}:{value.hex()}" for tag, value in names]

    def authority_key(self):
        """The key identifier of the issuer."""
        return dict(elements(inside(self.extensions[AUTHORITY_KEY])[0]))[KEY_ID]


@functools.lru_cache
def parse(der):
    return Certificate(der)


@functools.lru_cache
def parse_pem(text):
    """The first certificate in TEXT."""
    return parse(base64.b64decode(text.split("-----BEGIN CERTIFICATE-----")[1].split("-----END")[0]))
