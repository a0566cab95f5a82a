"""What an agent is told in order to use the service, as a skill file."""

from importlib.resources import files

_DEMO = "http://127.0.0.1:8080"
_ANYWHERE = f"A demo on this machine: `{_DEMO}`; otherwise ask for the base address."


def skill_text(base_url: str) -> str:
    """The project's skill file as that of the instance at `base_url`."""
    text = (files("barograph.discovery") / "SKILL.md").read_text("utf-8")
    return text.replace(_ANYWHERE, f"Base address: `{base_url}`.").replace(_DEMO, base_url)
