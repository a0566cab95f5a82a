"""Pages in the vocabulary of schema.org, for search engines (pure)."""

from collections.abc import Mapping

from barograph import SITE_NAME
from barograph.briefs.records import Brief, in_words
from barograph.kit.timestamps import iso_timestamp
from barograph.site.paths import BRIEFS_FOLDER, DEVELOPERS_PATH


def _thing(kind: str, base_url: str, path: str, **members: object) -> dict[str, object]:
    about = {"@context": "https://schema.org", "@type": kind, "url": base_url + path}
    owner = {"@type": "Organization", "name": SITE_NAME, "url": f"{base_url}/"}
    return {**about, **members, "isAccessibleForFree": True, "publisher": owner, "author": owner}


def website(base_url: str, description: str) -> dict[str, object]:
    """The whole site."""
    return _thing("WebSite", base_url, "/", name=SITE_NAME, description=description)


def dataset(
    base_url: str, path: str, name: str, description: str, files: Mapping[str, str]
) -> dict[str, object]:
    """The data of a page; `files` are media types by path."""
    downloads = [
        {"@type": "DataDownload", "encodingFormat": kind, "contentUrl": base_url + file}
        for file, kind in files.items()
    ]
    found = _thing("Dataset", base_url, path, name=name, description=description)
    licence = f"{base_url}{DEVELOPERS_PATH}#licence"
    return {**found, "creator": found["author"], "license": licence, "distribution": downloads}


def article(base_url: str, brief: Brief) -> dict[str, object]:
    """A brief."""
    return _thing(
        "Article",
        base_url,
        f"{BRIEFS_FOLDER}{brief.slug}",
        headline=brief.headline,
        description=brief.summary,
        image=f"{base_url}/static/social.png",
        datePublished=iso_timestamp(brief.first_at),
        dateModified=iso_timestamp(brief.published_at),
        articleSection=in_words(brief.category),
        keywords=list(brief.coins),
    )
