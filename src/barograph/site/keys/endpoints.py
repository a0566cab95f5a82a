"""The pages about personal keys: ask for one, open the mailed link, see the key once."""

from fastapi import Request, Response
from starlette.responses import RedirectResponse

from barograph.access.endpoints import AWAY, OTHER_SITE, RETRY_SECONDS, register
from barograph.access.fields import rate_limit_fields, retry_seconds
from barograph.access.gate import Gate
from barograph.access.refusals import Refusal
from barograph.access.registration import (
    ANSWER,
    LINK_FOLDER,
    LINK_HOURS,
    LinkNotUsable,
    Registrations,
)
from barograph.errors import InvalidRequest
from barograph.kit.clock import Clock
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.origins import is_cross_site
from barograph.kit.wire import ErrorBody, WireModel
from barograph.site.frame.answers import accepts, private_json, private_page
from barograph.site.frame.routes import PageRouter
from barograph.site.frame.writer import Pages
from barograph.site.keys.pages import (
    FORM_PLACE,
    NOT_AN_ADDRESS,
    AddressForm,
    again,
    write_form_again,
    write_key,
    write_link,
    write_mailed,
    write_message,
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
        gate: Gate,
        clock: Clock,
    ) -> None:
        self._pages = pages
        self._registrations = registrations
        self._gate = gate
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
            standing = await register(request, form.read, self._registrations, self._gate)
        except InvalidRequest:
            return self._ask_again(400, form, "Not an address", NOT_AN_ADDRESS)
        except Refusal as refusal:
            text = f"Too many came from your network. {again(retry_seconds(refusal.standing))}"
            fields = refusal.fields(self._clock())
            return self._ask_again(refusal.status, form, "Too many requests", text, *fields)
        except DatabaseUnavailable:
            return self._ask_again(503, form, *_AWAY, _RETRY)
        body = write_mailed(self._pages, ANSWER)
        return private_page(202, body, *rate_limit_fields(standing, self._clock()))

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
        if self._registrations is None or not await self._registrations.peek(token):
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
