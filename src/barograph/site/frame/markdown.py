"""Markdown to HTML that cannot act (pure): no raw HTML, no images, links to http(s) only."""

from markdown_it import MarkdownIt
from markupsafe import Markup


class _Careful(MarkdownIt):
    """Knows no link but to the web; what is not one stays text."""

    def validateLink(self, url: str) -> bool:  # noqa: N802 - the library's own name
        return url.lower().startswith(("http://", "https://"))


def render_markdown(text: str) -> Markup:
    """Render a text for a page that has its own first heading, so that `#` is a second one."""
    tokens = _MARKDOWN.parse(text)
    for token in tokens:
        if token.tag == "h1":
            token.tag = "h2"
    # Safe by construction: every text is escaped by the renderer and no HTML passes through.
    return Markup(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}))  # noqa: S704


_MARKDOWN = _Careful("commonmark", {"html": False}).enable("table").disable("image")
