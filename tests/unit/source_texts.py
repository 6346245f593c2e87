"""Texts for tests of source references: anything at all, and what is made of pieces that parsers trip on."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

_PIECES: Final = (
    *("/", "//", ".", "..", "...", "a", "b c", "clip.y4m", " ", "\u00a0", "~", "-", "--x"),
    *("file:", "FILE:///", "file://host", "http://", "HTTPS://", "http:", "s3://", "sftp://", "rclone://"),
    *("s3:", ":local:", "media:", ":", ",opt=x", '"', "'", "{", "}", "\\", "\n", "\x00", "\x85"),
    *("%", "%2", "%2e", "%2E%2e", "%2F", "%252e", "%00", "%0a", "%5c", "%E9", "%C3%A9", "%20"),
    *("?", "?q=1", "#", "@", "user:word@", "host", "h:80", ":99999", "[::1]", "[", "]", "\u212a"),
    *(
        "\u00e9",
        "\u6620",
        "\U0001f3ac",
        "\u202e",
        "\udce9",
        "\udcc3\udca9",
        "\ud800",
        "\uff0e\uff0e",
        "\uff0f",
    ),
)

anything: Final = st.text(alphabet=st.characters(exclude_categories=()), max_size=60)
pieced: Final = st.lists(st.sampled_from(_PIECES), max_size=9).map("".join)
any_text: Final = st.one_of(pieced, anything)
"""Any text: most of it made of pieces that mean something to some parser."""

elements: Final = st.text(
    alphabet=st.characters(
        exclude_categories=("Cc", "Cs"), exclude_characters="/\\%?#\u0085\uff0f\uff0e", max_codepoint=0x2FFF
    ),
    min_size=1,
    max_size=8,
).filter(lambda text: text == text.strip() and text not in {".", ".."})
"""Names of files that every kind of reference can hold as they are."""

_LOCAL: Final = st.lists(elements, max_size=4).map(lambda names: "/" + "/".join(names))
_WEB: Final = st.tuples(st.sampled_from(["http://host", "HTTP://Host:81", "https://u:p@host"]), _LOCAL)
_REMOTE: Final = st.tuples(
    st.sampled_from(["media:", ":local:", "my remote:", "s3://b", "rclone://m:"]), _LOCAL
)

web_references: Final = _WEB.map("".join)
remote_references: Final = _REMOTE.map("".join)
references: Final = st.one_of(_LOCAL, web_references, remote_references)
"""Well-formed references of every kind."""
web_like: Final = web_references | pieced.map("http://host/{}".format) | pieced.map("http://{}".format)
"""Texts that are URLs, or nearly."""
remote_like: Final = remote_references | pieced.map("media:{}".format) | pieced.map("s3://{}".format)
"""Texts that are on a remote, or nearly."""
