"""What a demo says when it is ready."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barograph.settings import Settings


def welcome(settings: "Settings", seconds: float, token: str) -> str:
    """Where everything is, what to try, and a token to try it with."""
    base = settings.base_url
    called = Path(sys.argv[0])
    program = f"{sys.executable} -m barograph" if called.suffix == ".py" else called
    paying = ""
    if settings.takes_payments:
        paying = f"""
  buy feed      {base}/api/x402/feed (with a payment proof, in simulated money)
  proof         {program} demo proof --wallet none --data {settings.data}"""
    return f"""\
Barograph demo, ready in {seconds:.1f} s. All of its data is simulated.

  site          {base}/
  market state  {base}/api/agent/market-state
  any perpetual {base}/api/agent/derivatives?symbol=ETH
  briefs        {base}/api/agent/briefs
  signals       {base}/api/v1/signals
  a badge       {base}/badge/regime.svg
  status        {base}/api/status
  developers    {base}/developers
  history       {base}/api/history/checkpoint
  exchange      {settings.exchange_rest_url} (simulated Bybit v5)
  data          {settings.data}

  get a key     {program} keys create --email you@example.com --data {settings.data}
  by mail       fill in the form at {base}/developers, then
                {program} demo mail --data {settings.data}
  feed          {base}/api/feed/now (with a bearer token)
  token         {program} demo token --tier feed --data {settings.data}{paying}
  break it      {program} demo fault exchange on --data {settings.data}
  mend it       {program} demo fault exchange off --data {settings.data}

A bearer token of a Feed subscriber, good for one hour:
{token}

Ctrl-C stops everything."""
