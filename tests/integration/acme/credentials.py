"""Keys, signatures and certificates with libcrypto, without a program for each."""
import ctypes
import functools
import hashlib
import time

import x509

crypto = ctypes.CDLL("libcrypto.so.3")
long, size_t, pointer = ctypes.c_long, ctypes.c_size_t, ctypes.c_void_p
for function in (crypto.d2i_PUBKEY, crypto.EVP_MD_CTX_new, crypto.EVP_sha256, crypto.BIO_new_mem_buf, crypto.PEM_read_bio_PrivateKey):
    function.restype = pointer

SEQUENCE, SET, INTEGER, BIT_STRING, OCTETS, UTC_TIME, TIME = 0x30, 0x31, 2, 3, 4, 0x17, 0x18
VERSION, KEY_ID, ATTRIBUTES, EXTENSIONS = 0xa0, 0x80, 0xa0, 0xa3
ECDSA_WITH_SHA256 = bytes.fromhex("300a06082a8648ce3d040302")
EXTENSION_REQUEST = bytes.fromhex("2a864886f70d01090e")
SUBJECT_KEY = bytes.fromhex("551d0e")


def der(tag, *parts):
    content = b"".join(parts)
    length = len(content)
    size = (length.bit_length() + 7) // 8
    head = bytes((tag, length)) if length < 0x80 else bytes((tag, 0x80 | size)) + length.to_bytes(size, "big")
    return head + content


def der_object(number):
    return der(6, number)


def integer(data):
    """Of big-endian bytes, as a positive number."""
    data = data.lstrip(b"\0") or b"\0"
    return der(INTEGER, (b"\0" if data[0] & 0x80 else b"") + data)


def in_der(element):
    """The encoding of a pair of tag and content."""
    return der(element[0], element[1])


def new_context():
    return pointer(crypto.EVP_MD_CTX_new())


@functools.lru_cache
def public_key(key):
    """Of a key in DER. It is never freed."""
    return pointer(crypto.d2i_PUBKEY(None, ctypes.byref(ctypes.c_char_p(key)), long(len(key))))


def is_signed(key, signature, text):
    """True if the signature of TEXT with SHA-256 is that of the key; both in DER."""
    public = public_key(key)
    context = new_context()
    try:
        return public.value is not None and (
            crypto.EVP_DigestVerifyInit(context, None, pointer(crypto.EVP_sha256()), None, public) == 1 and
            crypto.EVP_DigestVerify(context, signature, size_t(len(signature)), text, size_t(len(text))) == 1)
    finally:
        crypto.EVP_MD_CTX_free(context)


@functools.lru_cache
def private_key(pem):
    """It is never freed."""
    file = pointer(crypto.BIO_new_mem_buf(pem, len(pem)))
    key = pointer(crypto.PEM_read_bio_PrivateKey(file, None, None, None))
    crypto.BIO_free(file)
    if key.value is None:
        raise ValueError("not a private key")
    return key


def sign(pem, text):
    """The signature of TEXT with SHA-256 by the private key."""
    context, size = new_context(), size_t(1000)
    signature = ctypes.create_string_buffer(size.value)
    try:
        if crypto.EVP_DigestSignInit(context, None, pointer(crypto.EVP_sha256()), None, private_key(pem)) != 1 or \
                crypto.EVP_DigestSign(context, signature, ctypes.byref(size), text, size_t(len(text))) != 1:
            raise ValueError("cannot sign")
    finally:
        crypto.EVP_MD_CTX_free(context)
    return signature.raw[:size.value]


def der_time(seconds):
    text = time.strftime("%Y%m%d%H%M%SZ", time.gmtime(seconds)).encode()
    return der(UTC_TIME, text[2:]) if text < b"2050" else der(TIME, text)


def common_name(name):
    return der(SEQUENCE, der(SET, der(SEQUENCE, der_object(x509.COMMON_NAME), der(0x0c, name.encode()))))


class Request:
    """A certificate signing request in DER: its key, and the extensions that it asks for. It must be signed by its key."""

    def __init__(self, data):
        info, _, signature = x509.elements(x509.inside(data)[0])
        _, _, key, *attributes = x509.elements(info[1])
        self.key, self.extensions = in_der(key), b""
        if not is_signed(self.key, signature[1][1:], in_der(info)):
            raise ValueError("the request is not signed by its key")
        for _, content in attributes:
            for kind, values in map(x509.inside, x509.inside(content)):
                if kind == EXTENSION_REQUEST:
                    self.extensions = x509.inside(values)[0]


def certify(request, serial, begin_s, end_s, issuer, issuer_key):
    """The certificate for a Request, in DER. ISSUER: the certificate of the authority; ISSUER_KEY: its key; both in PEM."""
    authority = x509.parse_pem(issuer)
    key_id = x509.inside(authority.extensions[SUBJECT_KEY])[0]
    authority_key = der(SEQUENCE, der_object(x509.AUTHORITY_KEY), der(OCTETS, der(SEQUENCE, der(KEY_ID, key_id))))
    body = der(SEQUENCE, der(VERSION, der(INTEGER, b"\2")), integer(serial.to_bytes(8, "big")), ECDSA_WITH_SHA256,
               common_name(authority.subject), der(SEQUENCE, der_time(begin_s), der_time(end_s)), common_name("test"), request.key,
               der(EXTENSIONS, der(SEQUENCE, request.extensions, authority_key)))
    return der(SEQUENCE, body, ECDSA_WITH_SHA256, der(BIT_STRING, b"\0", sign(issuer_key, body)))
