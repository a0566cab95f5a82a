"""The pages of personal keys: request one, open the mailed link, see the key once."""

from functools import lru_cache
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

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
from barograph.kit.documents import JSON
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
from barograph.site.paths import ALERTS_PAGE, DEVELOPERS_PATH
from barograph.site.responses import PageRouter, accepts, private_page
from barograph.site.templating import Templates

FORM_PATH = f"{DEVELOPERS_PATH}#get-a-key"
USAGE_PATH = f"{DEVELOPERS_PATH}#send-a-key"
LINK_PATH = f"{LINK_FOLDER}/{{token}}"

NOT_AN_ADDRESS = "Enter one plain e-mail address, such as name@example.com."


class AddressForm:
    """The submitted form; it remembers what was typed, to show it again after an error."""

    typed = ""

    def read(self, body: bytes) -> str:
        """Read the address from the form's body.

        Raises:
            InvalidRequest: the body is not exactly one field `email` in UTF-8.
        """
        try:
            fields = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict")
        except ValueError as error:
            raise InvalidRequest(NOT_AN_ADDRESS) from error
        if [name for name, _ in fields] != ["email"]:
            raise InvalidRequest(NOT_AN_ADDRESS)
        email = fields[0][1].strip(" ")
        self.typed = email[:MAX_LENGTH]
        return email


def try_again_in(seconds: int) -> str:
    """When to try again, in words."""
    if seconds * SECOND < 2 * MINUTE:
        return f"Try again in {seconds} second{'' if seconds == 1 else 's'}."
    minutes = -(-seconds * SECOND // MINUTE)
    if minutes * MINUTE < HOUR - 5 * MINUTE:
        return f"Try again in about {minutes} minutes."
    hours = max(1, round(seconds * SECOND / HOUR))
    return f"Try again in about {'an hour' if hours == 1 else f'{hours} hours'}."


@lru_cache(maxsize=32)
def message_page(templates: Templates, title: str, text: str) -> bytes:
    """A page with a message; cached, so that a flood of refused requests stays cheap."""
    return templates.render("message.html", title=title, text=text, form_path=FORM_PATH)


class RevealedKey(WireModel):
    """A key, for a program that followed the link."""

    key: str


class KeyPages:
    """The endpoints `/keys` and `/keys/{token}`; without registrations there is no mail."""

    def __init__(
        self,
        templates: Templates,
        registrations: Registrations | None,
        limiter: RateLimiter,
        clock: Clock,
    ) -> None:
        self._templates = templates
        self._registrations = registrations
        self._limiter = limiter
        self._clock = clock

    def add_routes(self, router: PageRouter) -> None:
        """One route per path, so that a 405 can list all of its methods."""
        router.add(LINK_FOLDER, self.request_key, "GET", "HEAD", "POST")
        router.add(LINK_PATH, self.link, "GET", "HEAD", "POST")

    async def request_key(self, request: Request) -> Response:
        """Mail a link to the submitted address; a GET is redirected to the form."""
        if request.method != "POST":
            return RedirectResponse(f"{self._templates.root}{FORM_PATH}", 303)
        if self._is_cross_site(request):
            return self._message(403, *_OTHER_SITE)
        return await self._mail(request)

    async def _mail(self, request: Request) -> Response:
        if self._registrations is None:
            return self._message(503, *_NO_MAIL)
        form = AddressForm()
        try:
            usage = await register(request, form.read, self._registrations, self._limiter)
        except InvalidRequest:
            return self._form_again(400, form, "Invalid address", NOT_AN_ADDRESS)
        except CallerRefused as refusal:
            wait = try_again_in(retry_seconds(refusal.usage))
            text = f"Your network has requested too many keys. {wait}"
            fields = refusal.fields(self._clock())
            return self._form_again(refusal.status, form, "Too many requests", text, *fields)
        except DatabaseUnavailable:
            return self._form_again(503, form, *_UNAVAILABLE, _RETRY)
        body = self._templates.render("mailed.html", text=ANSWER, form_path=FORM_PATH)
        return private_page(202, body, *rate_limit_fields(usage, self._clock()))

    async def link(self, request: Request, token: str) -> Response:
        """GET shows a button, and POST creates the key and shows it once.

        GET must not create the key, because mail scanners open every link.
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
            return self._refuse(request, 503, AWAY, _UNAVAILABLE, _RETRY)

    async def _button(self, token: str) -> Response:
        if self._registrations is None or not await self._registrations.is_usable(token):
            raise LinkNotUsable
        body = self._templates.render("link.html", path=LINK_PATH.format(token=token))
        return private_page(200, body)

    async def _reveal(self, request: Request, token: str) -> Response:
        if self._registrations is None:
            raise LinkNotUsable
        key = (await self._registrations.redeem(token)).key
        if _wants_json(request):
            return private_page(200, RevealedKey(key=key).encode(), content_type=JSON)
        paths = {"usage_path": USAGE_PATH, "alerts_page": ALERTS_PAGE}
        body = self._templates.render("key.html", key=key, personal=PERSONAL, **paths)
        return private_page(200, body)

    def _is_cross_site(self, request: Request) -> bool:
        return is_cross_site(request.scope["headers"], self._templates.base_url)

    def _form_again(
        self, status: int, form: AddressForm, title: str, text: str, *fields: tuple[bytes, bytes]
    ) -> Response:
        body = self._templates.render(
            "form_again.html",
            title=title,
            text=text,
            typed=form.typed,
            link_folder=LINK_FOLDER,
            max_email=MAX_LENGTH,
        )
        return private_page(status, body, *fields)

    def _refuse(
        self,
        request: Request,
        status: int,
        message: str,
        page: tuple[str, str],
        *fields: tuple[bytes, bytes],
    ) -> Response:
        """An error as JSON for a program, or as a page with this title and text."""
        if _wants_json(request):
            body = ErrorBody(error=message).encode()
            return private_page(status, body, *fields, content_type=JSON)
        return self._message(status, *page, *fields)

    def _message(
        self, status: int, title: str, text: str, *fields: tuple[bytes, bytes]
    ) -> Response:
        return private_page(status, message_page(self._templates, title, text), *fields)


def _wants_json(request: Request) -> bool:
    return accepts(request.scope["headers"], b"application/json")


_NO_MAIL = ("No mail", "This instance sends no mail. Ask its operator for a key.")
_NOT_USABLE = (
    "This link can't be used",
    f"It was already used, is older than {LINK_HOURS} hours, or never existed. Request a new one.",
)
_OTHER_SITE = (
    "Request refused",
    "The request came from a page of another website, so we did nothing. Use our own form.",
)
_UNAVAILABLE = ("Not available now", f"We can't issue keys now. {try_again_in(RETRY_SECONDS)}")
_RETRY = (b"retry-after", b"%d" % RETRY_SECONDS)
