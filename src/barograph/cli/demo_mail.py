"""The mails that a demo captured, on the terminal."""

from pathlib import Path

import click


def print_demo_mail(data: Path, as_json: bool) -> None:
    """Print the mails that the demo in this folder captured."""
    import msgspec

    from barograph.demo.mailbox import read_mailbox

    mails = read_mailbox(data)
    if as_json:
        click.echo(msgspec.json.encode(mails))
        return
    for mail in mails:
        click.echo(f"from: {mail.sender}\nto: {', '.join(mail.to)}\ndate: {mail.date}")
        click.echo(f"subject: {mail.subject}\n\n{mail.text}")
    if not mails:
        click.echo("no mail yet")
