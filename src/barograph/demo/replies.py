"""HTTP replies, right and wrong ones."""

import email.utils
from http import HTTPStatus
from typing import Final

import msgspec
from websockets.datastructures import Headers
from websockets.http11 import Response

from barograph.demo.rest import envelope

JSON: Final = "application/json; charset=utf-8"
TEXT: Final = "text/plain"
_HTML: Final = "text/html"

_CLOUDFRONT: Final = b"""<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 4.01 Transitional//EN">
<HTML><HEAD><TITLE>ERROR: The request could not be satisfied</TITLE></HEAD><BODY>
<H1>403 ERROR</H1><H2>The request could not be satisfied.</H2>
The Amazon CloudFront distribution is configured to block access from your country.
</BODY></HTML>
"""
_BAD_GATEWAY: Final = b"""<html><head><title>502 Bad Gateway</title></head>
<body><center><h1>502 Bad Gateway</h1></center></body></html>
"""


def reply(status: int, body: bytes, kind: str = JSON, **headers: str) -> Response:
    """A plain HTTP reply, after which the connection is closed."""
    fields = Headers(
        [
            ("Date", email.utils.formatdate(usegmt=True)),
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ]
    )
    for name, value in headers.items():
        fields[name.replace("_", "-")] = value
    return Response(int(status), HTTPStatus(status).phrase, fields, body)


def wrong(fault: str, now: int) -> Response:
    """The reply that a fault gives in the exchange's stead."""
    match fault:
        case "403-html":
            return reply(403, _CLOUDFRONT, _HTML, X_Cache="Error from cloudfront")
        case "403-json":
            return reply(403, envelope(now, code=10018, message="access too frequent"))
        case "429":
            return reply(429, b"System level frequency protection", TEXT)
        case "10006":
            body = envelope(now, code=10006, message="Too many visits!")
            return reply(200, body, X_Bapi_Limit_Reset_Timestamp=str(now + 1000))
        case "10016":
            return reply(200, envelope(now, code=10016, message="Internal System Error."))
        case _:
            return reply(502, _BAD_GATEWAY, _HTML)


def truncated(status: int, body: bytes) -> Response:
    """A reply that breaks off in the middle of its JSON, although it promised all of it."""
    response = reply(status, body)
    response.body = body[: len(body) // 2]
    return response


def without_rows(body: bytes) -> bytes:
    """The same answer, its list empty."""
    message = msgspec.json.decode(body)
    if isinstance(message["result"], dict) and "list" in message["result"]:
        message["result"]["list"] = []
    return msgspec.json.encode(message)
