"""What a message says, and how each kind of target wants it (pure)."""

import re
from collections.abc import Callable, Mapping
from html import escape
from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlsplit, urlunsplit

import msgspec

from barograph.alerts.records import Alert, AlertMessage, Fired
from barograph.alerts.rules import Rule, amount, condition, sentence, subject
from barograph.kit.timestamps import MINUTE, dated_text
from barograph.webhooks.records import AlertRequest, Format, Webhook
from barograph.webhooks.signing import message_body

ALERTS_PATH = "/alerts"
LATE = 2 * MINUTE
"""A message that is later than this says so."""

LONGEST_TITLE = 200
_MARKDOWN = re.compile(r"([\\*_~|`>#\[\]<@])")


class Text(NamedTuple):
    """What a message says."""

    subject: str
    """What happened, in one line."""

    details: str
    """The time."""

    rule: str
    link: str
    """The page that it is about."""

    stop_url: str
    picture_url: str | None

    @property
    def plain(self) -> str:
        """The body of a mail."""
        return (
            f"{self.subject}.\n\n{self.details}\nPage: {self.link}\n\nYour rule: {self.rule}\n"
            f"To stop these messages, open this link and press the button:\n{self.stop_url}\n"
        )

    @property
    def markdown(self) -> str:
        """The same in Markdown."""
        title, details = (_MARKDOWN.sub(r"\\\1", part) for part in (self.subject, self.details))
        return f"**{title}**\n{details}\n[Page]({self.link}) · [Stop this alert]({self.stop_url})"

    @property
    def html(self) -> str:
        """The same in the HTML that every chat service takes; the lines end with newlines."""
        return (
            f"<b>{escape(self.subject)}</b>\n{escape(self.details)}\n"
            f'<a href="{escape(self.link)}">Page</a> · '
            f'<a href="{escape(self.stop_url)}">Stop this alert</a>'
        )


def headline(rule: Rule, fired: Fired) -> str:
    """What happened, in one line: `BTC funding at Bybit is above 0.0500 % per 8 h: 0.0612 %`."""
    text = fired.text
    if fired.value is not None:
        text = subject(rule, [fired.symbol] if fired.symbol else [], fired.venue)
        text += f" {condition(rule)}: {amount(fired.value, rule.unit)}"
    return text[:1].upper() + text[1:]


def text_of(alert: Alert, message: AlertMessage, base_url: str, now: int) -> Text:
    """What a message says if it is sent now."""
    rule, fired = alert.rule, message.fired
    late = (now - fired.at) // MINUTE
    delay = f" (this message is delayed by {late} minutes)" if now - fired.at > LATE else ""
    folder = f"{base_url}{ALERTS_PATH}"
    return Text(
        " ".join(headline(rule, fired).split())[:LONGEST_TITLE],
        f"Time: {dated_text(fired.at)}{delay}",
        sentence(rule),
        f"{base_url}{fired.path or ALERTS_PATH}",
        f"{folder}/stop/{alert.stop_token}",
        None if fired.value is None else f"{folder}/picture/{message.token}.png",
    )


def request_of(
    webhook: Webhook, alert: Alert, message: AlertMessage, *, base_url: str, now: int
) -> AlertRequest:
    """The request that delivers a message to a webhook.

    The signed JSON says no delay, so that each attempt has the same body.
    """
    text, url = text_of(alert, message, base_url, now), webhook.url
    if webhook.format == "json":
        return AlertRequest(message.id, url, _signed_json(alert, message, text))
    parts, body = urlsplit(url), _BODIES[webhook.format](text)
    if webhook.format == "telegram":
        body["chat_id"] = parse_qs(parts.query)["chat_id"][0]
    elif webhook.format == "ntfy":
        # JSON goes to the root, with the topic inside.
        folder, _, body["topic"] = parts.path.rstrip("/").rpartition("/")
        url = urlunsplit(parts._replace(path=f"{folder}/"))
    return AlertRequest(message.id, url, msgspec.json.encode(body))


def _signed_json(alert: Alert, message: AlertMessage, text: Text) -> bytes:
    fired = message.fired
    data = {
        "alert": alert.id,
        "title": text.subject,
        "rule": alert.rule,
        "symbol": fired.symbol,
        "venue": fired.venue,
        "value": fired.value,
        "url": text.link,
        "stop_url": text.stop_url,
        "picture_url": text.picture_url,
    }
    return message_body("alert.fired", fired.at, msgspec.json.encode(data))


def _telegram(text: Text) -> dict[str, object]:
    """https://core.telegram.org/bots/api#sendmessage."""
    picture = {"url": text.picture_url, "prefer_large_media": True}
    preview = {"is_disabled": True} if text.picture_url is None else picture
    return {"text": text.html, "parse_mode": "HTML", "link_preview_options": preview}


def _discord(text: Text) -> dict[str, object]:
    """https://discord.com/developers/docs/resources/webhook#execute-webhook."""
    images = [] if text.picture_url is None else [{"image": {"url": text.picture_url}}]
    return {"content": text.markdown, "embeds": images, "allowed_mentions": {"parse": []}}


def _slack(text: Text) -> dict[str, object]:
    """https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks.

    The picture is an attachment: Slack refuses a message whose image block it can't load.
    """
    title, details = (escape(part, quote=False) for part in (text.subject, text.details))
    links = f"<{text.link}|Page> · <{text.stop_url}|Stop this alert>"
    picture = [{"fallback": "chart", "image_url": text.picture_url}]
    return {
        "text": f"*{title}*\n{details}\n{links}",
        "attachments": [] if text.picture_url is None else picture,
    }


def _matrix(text: Text) -> dict[str, object]:
    """https://matrix-org.github.io/matrix-hookshot/latest/setup/webhooks.html."""
    return {"text": text.plain, "html": text.html.replace("\n", "<br>")}


def _ntfy(text: Text) -> dict[str, object]:
    """https://docs.ntfy.sh/publish/#publish-as-json."""
    stop = {"action": "view", "label": "Stop this alert", "url": text.stop_url}
    picture = {} if text.picture_url is None else {"attach": text.picture_url}
    body = {"title": text.subject, "message": text.details, "click": text.link}
    return {**body, **picture, "actions": [stop]}


_BODIES: Final[Mapping[Format, Callable[[Text], dict[str, object]]]] = {
    "telegram": _telegram,
    "discord": _discord,
    "slack": _slack,
    "matrix": _matrix,
    "ntfy": _ntfy,
}
