"""The pages about personal keys: ask for one, open the mailed link, see the key once."""

from functools import lru_cache
from urllib.parse import parse_qsl

from fastapi import Request, Response
from starlette.responses import RedirectResponse

from barograph.errors import InvalidRequest
from barograph.keys.email_address import MAX_LENGTH
from barograph.keys.endpoints import AWAY, OTHER_SITE, RETRY_SECONDS, register
from barograph.keys.registration import (
    ANSWER,
    LINK_FOLDER,
    LINK_HOURS,
    LinkNotUsable,
    Registrations,
)
from barograph.kit.clock import Clock
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.http import is_cross_site
from barograph.kit.timestamps import HOUR, MINUTE, SECOND
from barograph.kit.wire import ErrorBody, WireModel
from barograph.limits.rate_limits import (
    PERSONAL,
    CallerRefused,
    RateLimiter,
    rate_limit_fields,
    retry_seconds,
)
from barograph.site.frame.paths import DEVELOPERS_PATH
from barograph.site.frame.responses import PageRouter, accepts, private_json, private_page
from barograph.site.frame.writer import Pages

FORM_PLACE = f"{DEVELOPERS_PATH}#get-a-key"
"""Where the form is, below the root."""

SENDING_PLACE = f"{DEVELOPERS_PATH}#send-a-key"
"""Where it is told how a key is sent."""

NOT_AN_ADDRESS = "That is not one plain e-mail address such as name@example.com."


def email_from_form(body: bytes) -> str:
    """Read the one field of a form's body.

    Raises:
        InvalidRequest: it is not the one field `email`, given once, in UTF-8.
    """
    try:
        found = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError as error:
        raise InvalidRequest(NOT_AN_ADDRESS) from error
    if [name for name, _ in found] != ["email"]:
        raise InvalidRequest(NOT_AN_ADDRESS)
    return found[0][1].strip(" ")


class AddressForm:
    """What somebody typed, kept for the page that asks once more."""

    typed = ""

    def read(self, body: bytes) -> str:
        """Read the one field of a form's body.

        Raises:
            InvalidRequest: it is not the one field `email`, given once, in UTF-8.
        """
        found = email_from_form(body)
        self.typed = found[:MAX_LENGTH]
        return found


def again(seconds: int) -> str:
    """When to try again, in words that people use."""
    if seconds * SECOND < 2 * MINUTE:
        return f"Try again in {seconds} second{'' if seconds == 1 else 's'}."
    minutes = -(-seconds * SECOND // MINUTE)
    if minutes * MINUTE < HOUR - 5 * MINUTE:
        return f"Try again in about {minutes} minutes."
    hours = max(1, round(seconds * SECOND / HOUR))
    return f"Try again in about {'an hour' if hours == 1 else f'{hours} hours'}."


def write_link(pages: Pages, path: str) -> bytes:
    """The button behind a mailed link, which is at `path`."""
    return pages.fill("link.html", path=path)


def write_key(pages: Pages, key: str) -> bytes:
    """A key, shown once."""
    return pages.fill("key.html", key=key, personal=PERSONAL, sending_place=SENDING_PLACE)


@lru_cache(maxsize=32)
def write_message(pages: Pages, title: str, text: str) -> bytes:
    """What became of a request about keys; rendered once, because refusals must stay cheap."""
    return pages.fill("message.html", title=title, text=text, form_place=FORM_PLACE)


def write_mailed(pages: Pages, text: str) -> bytes:
    """A link is on its way."""
    return pages.fill("mailed.html", text=text, form_place=FORM_PLACE)


def write_form_again(pages: Pages, title: str, text: str, typed: str, path: str) -> bytes:
    """Why nothing was mailed, and the form with what was typed into it, which goes to `path`."""
    return pages.fill(
        "form_again.html",
        title=title,
        text=text,
        typed=typed,
        link_folder=path,
        max_email=MAX_LENGTH,
    )


ASK_PATH = LINK_FOLDER
LINK_PATH = f"{LINK_FOLDER}/{{token}}"


class RevealedKey(WireModel):
    """A key, for a program that followed the link."""

    key: str


class KeyPages:
    """Answers for `/keys` and for mailed links; without registrations there is no mail."""

    def __init__(
        self,
        pages: Pages,
        registrations: Registrations | None,
        limiter: RateLimiter,
        clock: Clock,
    ) -> None:
        self._pages = pages
        self._registrations = registrations
        self._limiter = limiter
        self._clock = clock

    def routes(self) -> PageRouter:
        """One route for all methods of a path, so that what refuses the others can name them."""
        router = PageRouter()
        router.add(ASK_PATH, self.ask, "GET", "HEAD", "POST")
        router.add(LINK_PATH, self.link, "GET", "HEAD", "POST")
        return router

    async def ask(self, request: Request) -> Response:
        """Mail a link to the address of a form; a GET is redirected to the form."""
        if request.method != "POST":
            return RedirectResponse(f"{self._pages.root}{FORM_PLACE}", 303)
        if self._is_cross_site(request):
            return self._say(403, *_OTHER_SITE)
        return await self._mail(request)

    async def _mail(self, request: Request) -> Response:
        if self._registrations is None:
            return self._say(503, "No mail", _NO_MAIL)
        form = AddressForm()
        try:
            usage = await register(request, form.read, self._registrations, self._limiter)
        except InvalidRequest:
            return self._ask_again(400, form, "Not an address", NOT_AN_ADDRESS)
        except CallerRefused as refusal:
            text = f"Too many came from your network. {again(retry_seconds(refusal.usage))}"
            fields = refusal.fields(self._clock())
            return self._ask_again(refusal.status, form, "Too many requests", text, *fields)
        except DatabaseUnavailable:
            return self._ask_again(503, form, *_AWAY, _RETRY)
        body = write_mailed(self._pages, ANSWER)
        return private_page(202, body, *rate_limit_fields(usage, self._clock()))

    async def link(self, request: Request, token: str) -> Response:
        """Show the button of a link, or press it: the key is shown once.

        Only pressing makes the key, because mail scanners open every link.
        """
        try:
            if request.method != "POST":
                return await self._button(token)
            if self._is_cross_site(request):
                return self._refuse(request, 403, OTHER_SITE, _OTHER_SITE)
            return await self._reveal(request, token)
        except LinkNotUsable as error:
            return self._refuse(request, error.status, error.message, _NOT_USABLE)
        except DatabaseUnavailable:
            return self._refuse(request, 503, AWAY, _AWAY, _RETRY)

    async def _button(self, token: str) -> Response:
        if self._registrations is None or not await self._registrations.is_usable(token):
            raise LinkNotUsable
        return private_page(200, write_link(self._pages, LINK_PATH.format(token=token)))

    async def _reveal(self, request: Request, token: str) -> Response:
        if self._registrations is None:
            raise LinkNotUsable
        made = await self._registrations.redeem(token)
        if _wants_json(request):
            return private_json(200, RevealedKey(key=made.key).encode())
        return private_page(200, write_key(self._pages, made.key))

    def _is_cross_site(self, request: Request) -> bool:
        return is_cross_site(request.scope["headers"], self._pages.base_url)

    def _ask_again(
        self, status: int, form: AddressForm, title: str, text: str, *fields: tuple[bytes, bytes]
    ) -> Response:
        body = write_form_again(self._pages, title, text, form.typed, ASK_PATH)
        return private_page(status, body, *fields)

    def _refuse(
        self,
        request: Request,
        status: int,
        message: str,
        page: tuple[str, str],
        *fields: tuple[bytes, bytes],
    ) -> Response:
        """An error for a program that asks for JSON, or a page with its title and text."""
        if _wants_json(request):
            return private_json(status, ErrorBody(error=message).encode(), *fields)
        return self._say(status, *page, *fields)

    def _say(self, status: int, title: str, text: str, *fields: tuple[bytes, bytes]) -> Response:
        return private_page(status, write_message(self._pages, title, text), *fields)


def _wants_json(request: Request) -> bool:
    return accepts(request.scope["headers"], b"application/json")


_NO_MAIL = "This instance sends no mail, so keys come from its operator."
_NOT_USABLE = (
    "This link cannot be used",
    f"It was used already, is older than {LINK_HOURS} hours or never existed. Ask for a new one.",
)
_OTHER_SITE = (
    "Request refused",
    "The request came from a page of another website, so nothing was done. Use our own form.",
)
_AWAY = ("Not available now", f"Keys cannot be handed out now. {again(RETRY_SECONDS)}")
_RETRY = (b"retry-after", b"%d" % RETRY_SECONDS)
