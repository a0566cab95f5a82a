"""Where each kind of stance is read."""

STANCE_PATHS = {
    "btc-etf-stance": "/api/x402/btc-etf-stance",
    "rates-desk": "/api/x402/rates-desk",
    "funding-regime-stance": "/api/x402/funding-regime",
}
"""By kind."""
