"""One adapter per outside service: exchange, daily figures, identity, payments and mail."""
