"""The sentence that travels with everything Barograph publishes."""

NOTICE = "Information only, not financial advice."
