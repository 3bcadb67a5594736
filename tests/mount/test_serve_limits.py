"""Who may read what is served, how it ends, and what hostile images and clients cannot do."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

import pytest

from tests.cli.test_other_systems import GO
from tests.conftest import Cli, Images
from tests.fuzz import images
from tests.mount.damage import damaged_image
from tests.mount.serving import Serving, served

NAME = "rm_rf_tree"
FILE = b"/live/keep/odd names/two words.txt"
WRITING = ("PUT", "DELETE", "MKCOL", "MOVE", "COPY", "PROPPATCH", "LOCK", "UNLOCK", "POST")
READING = ("GET", "HEAD", "OPTIONS", "PROPFIND")
NAMES = (
    b"<script>alert(1)<", b"\"quoted\" 'name' &amp;", b"\xff\xfe not UTF-8", b"new\nline",
    b"\x1b[31mred", b"?query#part;more", b"%2e%2e%2f", b"..%5c..", b"\\..\\", b" blanks ", b"+",
    "\u202etxt.exe".encode(), "\uffff".encode(), b"*:|", b"CON", b"...",
)  # fmt: skip
PATHS = (
    "/../../etc/passwd", "/live/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd",
    "/live/..%2f..%2fetc/passwd", "/\\..\\etc", "/live/%00",
)  # fmt: skip
SEEDS = 4


@pytest.fixture(scope="module")
def sample(unpacked: Images) -> Iterator[Serving]:
    """A sample, served once for all tests that only read."""
    with served(unpacked(NAME).image) as serving:
        yield serving


def made(folder: Path, files: dict[bytes, bytes]) -> Path:
    """An image with some files, and without a journal and checksums."""
    (source := folder / "source").mkdir()
    for name, content in files.items():
        with open(os.fsencode(source) + b"/" + name, "wb") as file:  # noqa: PTH123
            file.write(content)
    image = folder / "made.img"
    features = "^has_journal,^metadata_csum"
    command = ["mke2fs", "-q", "-t", "ext4", "-b", "1024", "-O", features, "-d", source, image]
    subprocess.run([*map(str, command), "32M"], check=True)
    return image


# ---- who may read


@pytest.mark.parametrize("method", [*READING, *WRITING])
def test_nobody_reads_without_the_password(sample: Serving, method: str) -> None:
    path = b"/live/"
    wrong: tuple[dict[str, str], ...] = (
        {}, {"Authorization": sample.basic(sample.user, "wrong")},
        {"Authorization": sample.basic("other", sample.password)},
        {"Authorization": sample.basic(sample.user, "")}, {"Authorization": "Basic !"},
        {"Authorization": "Bearer x"}, {"Authorization": 'Digest x="y", uri="//["'},
    )  # fmt: skip
    for headers in wrong:
        found = sample.request(method, path, {"Depth": "0", **headers}, is_known=False)
        assert found.status == 401, (method, headers)
        assert found.headers["www-authenticate"].startswith("Digest ")
        assert b"keep" not in found.body


def test_digest_opens_names_of_any_bytes(tmp_path: Path) -> None:
    with served(made(tmp_path, {name: name for name in NAMES})) as serving:
        address = f"http://127.0.0.1:{serving.port}"
        known = urllib.request.HTTPPasswordMgrWithDefaultRealm()
        known.add_password(None, address, serving.user, serving.password)
        opener = urllib.request.build_opener(urllib.request.HTTPDigestAuthHandler(known))
        for name in NAMES:
            with opener.open(f"{address}/live/{quote(name)}") as answer:
                assert answer.read() == name


def _signed(serving: Serving, method: str, path: str) -> str:
    """The header of Digest for a request."""
    asked = serving.request("GET", b"/", is_known=False).headers["www-authenticate"]
    nonce = re.findall(r'nonce="([^"]*)"', asked)[0]

    def md5(text: str) -> str:
        return hashlib.md5(text.encode()).hexdigest()

    user, count = serving.user, 'nc=00000001, cnonce="c"'
    ours = md5(f"{user}:{user}:{serving.password}")
    response = md5(f"{ours}:{nonce}:00000001:c:auth:{md5(f'{method}:{path}')}")
    return (f'Digest username="{user}", realm="{user}", nonce="{nonce}", uri="{path}", qop=auth, '
            f'{count}, response="{response}"')  # fmt: skip


def test_a_header_of_digest_is_good_for_one_path_and_method(sample: Serving) -> None:
    header = {"Authorization": _signed(sample, "GET", "/live/"), "Depth": "0"}
    assert sample.request("GET", b"/live/", header, is_known=False).status == 200
    assert sample.request("GET", b"/deleted/", header, is_known=False).status == 401
    assert sample.request("PROPFIND", b"/live/", header, is_known=False).status == 401


def test_the_password_is_another_one_in_each_run(sample: Serving, unpacked: Images) -> None:
    with served(unpacked(NAME).image) as other:
        assert other.password != sample.password
        assert min(len(other.password), len(sample.password)) >= 16
        assert other.port != sample.port


def test_at_other_addresses_the_password_is_never_sent_readable(unpacked: Images) -> None:
    with served(unpacked(NAME).image, "--host", "0.0.0.0") as serving:
        assert "warning: other computers can connect" in serving.errors.read_text()
        assert serving.request("GET", b"/live/").status == 401  # Basic
        header = {"Authorization": _signed(serving, "GET", "/live/")}
        assert serving.request("GET", b"/live/", header, is_known=False).status == 200


def test_only_this_computer_can_connect(sample: Serving) -> None:
    assert sample.host == "127.0.0.1"
    assert "warning" not in sample.errors.read_text()
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = [each[1] for each in sockets if each[3] == "0A"]
    assert f"0100007F:{sample.port:04X}" in listening
    assert f"00000000:{sample.port:04X}" not in listening


def test_a_password_of_a_file(unpacked: Images, ext4kit: Cli, tmp_path: Path) -> None:
    image = unpacked(NAME).image
    (file := tmp_path / "secret").write_text("a long secret\nmore\n")
    words = ("--web-password-file", str(file))
    command = [*words, "--port", "0"]
    with served(image, *command) as serving:
        serving.password = "a long secret"
        assert serving.get(b"/").status == 200
        assert serving.password not in serving.errors.read_text()
    file.write_text("\n")
    done = ext4kit("serve", image, *words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


# ---- browsers


def test_a_page_of_another_site_reads_nothing(sample: Serving) -> None:
    for host in ("evil.example", "evil.example:80", f"127.0.0.1.evil.example:{sample.port}"):
        assert sample.request("GET", FILE, {"Host": host}).status == 421
    for host in ("localhost", f"127.0.0.1:{sample.port}", "[::1]:1"):
        assert sample.request("GET", FILE, {"Host": host}).status == 200
    for method in ("GET", "OPTIONS"):
        found = sample.request(method, FILE, {"Origin": "http://evil.example"})
        assert not [name for name in found.headers if name.startswith("access-control")]
        assert found.headers["cross-origin-resource-policy"] == "same-origin"
        assert "default-src 'none'" in found.headers["content-security-policy"]
    found = sample.get(FILE)
    assert found.headers["content-type"] == "application/octet-stream"
    assert found.headers["content-disposition"] == "attachment"
    assert found.headers["x-content-type-options"] == "nosniff"


class _Links(HTMLParser):
    """The links and the elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.elements: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]


def test_hostile_names_are_shown_and_opened(tmp_path: Path) -> None:
    image = made(tmp_path, {name: name for name in (*NAMES, b"QQ", b"aQb")})
    data = image.read_bytes()
    for former, name in ((b"\2\1QQ\0\0", b"\2\1..\0\0"), (b"\3\1aQb\0", b"\3\1a/b\0")):
        assert data.count(former) == 1
        data = data.replace(former, name)
    image.write_bytes(data)
    changed = {b"a%2Fb": b"aQb"}
    with served(image) as serving:
        found = {each.path[6:]: each for each in serving.listed(b"/live/")[1:]}
        for name, content in (dict(zip(NAMES, NAMES, strict=True)) | changed).items():
            assert serving.get(b"/live/" + name).body == content
            assert found[name].values["{DAV:}displayname"].isprintable()
        assert len(found) == len(NAMES) + len(changed) + 1  # lost+found, and nothing for `..`
        page = serving.get(b"/live/").body.decode()
        parser = _Links()
        parser.feed(page)
        assert {unquote_to_bytes(link)[6:].rstrip(b"/") for link in parser.links[1:]} == {
            path.rstrip(b"/") for path in found
        }
        assert "script" not in parser.elements
        assert all(line.isprintable() for line in page.splitlines())


def test_paths_stay_in_the_tree(sample: Serving) -> None:
    for path in PATHS:
        connection = http.client.HTTPConnection("127.0.0.1", sample.port, timeout=30)
        connection.putrequest("GET", path, skip_host=False)
        connection.putheader("Authorization", sample.basic(sample.user, sample.password))
        connection.endheaders()
        answer = connection.getresponse()
        assert answer.status in (400, 404), path
        assert b"root:" not in answer.read()
        connection.close()


# ---- nothing is written


def test_nothing_can_be_written(unpacked: Images, tmp_path: Path) -> None:
    image = Path(shutil.copy(unpacked(NAME).image, tmp_path))
    before = hashlib.sha256(image.read_bytes()).digest()
    with served(image) as serving:
        to = {"Destination": f"http://127.0.0.1:{serving.port}/live/moved", "Overwrite": "T"}
        for method in WRITING:
            for path in (b"/live/new", b"/live/keep/", FILE):
                body = b"x" if method in ("PUT", "POST") else None
                found = serving.request(method, path, to, body)
                assert found.status in (403, 405), (method, path)
                assert not {"PUT", "DELETE", "LOCK"} & set(found.headers["allow"].split(", "))
        with suppress(OSError):  # the connection may be closed before all is sent
            assert serving.request("PUT", b"/live/new", body=bytes(2 << 20)).status == 413
        assert serving.request("OPTIONS", b"/live/").headers["dav"] == "1"
        assert serving.get(b"/live/new").status == 404
        assert serving.digests(b"/deleted/")
        assert not _written_to(serving.process.pid)
    assert hashlib.sha256(image.read_bytes()).digest() == before


def _written_to(process: int) -> list[str]:
    """The regular files that a process has open for writing, without standard streams."""
    found = []
    for entry in Path(f"/proc/{process}/fd").iterdir():
        facts = Path(f"/proc/{process}/fdinfo/{entry.name}").read_text()
        flags = int(re.findall(r"flags:\s+(\d+)", facts)[0], 8)
        if flags & os.O_ACCMODE and int(entry.name) > 2 and entry.is_file():
            found.append(str(entry.readlink()))
    return found


def test_whole_trees_are_not_listed_in_one_request(sample: Serving) -> None:
    found = sample.request("PROPFIND", b"/live/", {"Depth": "infinity"})
    assert (found.status, b"propfind-finite-depth" in found.body) == (403, True)
    assert sample.request("PROPFIND", FILE, {"Depth": "infinity"}).status == 207
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaa">]><propfind xmlns="DAV:"><prop>&a;</prop></propfind>'
    for body in (bomb, bomb.decode().encode("utf-16"), b"no XML"):
        assert sample.request("PROPFIND", FILE, {"Depth": "0"}, body).status == 400
    assert sample.request("PROPFIND", b"/live/none", {"Depth": "0"}).status == 404


# ---- damage


def test_a_damaged_file_is_an_error_and_the_rest_goes_on(tmp_path: Path) -> None:
    names = {b"torn": bytes(range(256)) * (24 << 10), b"inode": b"x" * 9000, b"sound": b"sound"}
    image = made(tmp_path, names)
    words = ["debugfs", "-w", "-R", "set_inode_field /inode block[0] 0", str(image)]
    subprocess.run(words, check=True, capture_output=True)
    said = subprocess.run(["debugfs", "-R", "blocks /torn", str(image)], capture_output=True)
    blocks = list(map(int, said.stdout.split()))
    os.truncate(image, blocks[len(blocks) // 2] << 10)
    with served(image) as serving:
        with pytest.raises(http.client.IncompleteRead) as caught:
            serving.get(b"/live/torn")
        whole = names[b"torn"]
        assert 0 < len(caught.value.partial) <= len(whole) // 2 + 2048
        assert whole.startswith(caught.value.partial)
        assert serving.get(b"/live/torn", {"Range": f"bytes={len(whole) - 9}-"}).status == 500
        assert serving.get(b"/live/inode").status == 500
        assert serving.get(b"/live/sound").body == b"sound"
        assert {each.path for each in serving.listed(b"/live/")} >= {b"/live/torn", b"/live/inode"}
        assert "internal error" not in serving.errors.read_text()


@pytest.mark.skipif(bool(images.missing()), reason=images.missing())
@pytest.mark.heavy
@pytest.mark.parametrize("number", range(SEEDS))
def test_every_file_of_a_damaged_image_is_read_or_refused(
    number: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    seed = request.config.option.seed * 1000 + number
    with damaged_image(seed, tmp_path) as image, served(image) as serving:
        _read(serving, seed)


def _read(serving: Serving, seed: int) -> None:
    for tree in (b"/live/", b"/deleted/", b"/unattached/", b"/unallocated/", b"/metadata/"):
        waiting = [tree]
        while waiting:
            found = serving.request("PROPFIND", path := waiting.pop(), {"Depth": "1"})
            assert found.status in (207, 404, 500), (seed, path)
            for each in serving.listed(path)[1:] if found.status == 207 else ():
                waiting += [each.path] * each.is_folder
                if not each.is_folder and (each.size or 0) < 8 << 20:
                    serving.digest(each.path)
    assert serving.process.poll() is None, seed
    assert "internal error" not in serving.errors.read_text(), seed


# ---- the end


@pytest.fixture(params=[signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def number(request: pytest.FixtureRequest) -> Iterator[int]:
    """A signal that the program does not ignore, as it would in a run in the background."""
    former = signal.signal(request.param, signal.SIG_DFL)
    yield request.param
    signal.signal(request.param, former)


def _paused(serving: Serving, path: bytes) -> socket.socket:
    """A client that has asked for a file and does not read."""
    client = socket.create_connection(("127.0.0.1", serving.port))
    known = serving.basic(serving.user, serving.password)
    text = f"GET {quote(path)} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {known}\r\n\r\n"
    client.sendall(text.encode())
    client.recv(1)
    return client


def test_a_signal_ends_it(number: int, tmp_path: Path) -> None:
    image = made(tmp_path, {b"large": bytes(range(256)) * (64 << 10)})
    with served(image) as serving, _paused(serving, b"/live/large"):
        start = time.monotonic()
        assert serving.end(number) == 0
        assert time.monotonic() - start < 10
        told = serving.errors.read_text()
        assert "internal error" not in told
        assert "interrupted" not in told
        with pytest.raises(OSError, match="refused"):
            serving.get(b"/")


def test_a_run_in_the_background_of_a_script_ends_by_a_signal(unpacked: Images) -> None:
    ignored = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    with served(unpacked(NAME).image, program=("-c", ignored + GO)) as serving:
        assert serving.end(signal.SIGTERM) == 0


def test_a_client_that_goes_away_ends_nothing(tmp_path: Path) -> None:
    image = made(tmp_path, {b"large": bytes(range(256)) * (64 << 10)})
    with served(image, "-v") as serving:
        for _ in range(3):
            _paused(serving, b"/live/large").close()
        assert serving.get(b"/live/large").status == 200
        assert "GET /live/large: 200 OK" in serving.errors.read_text()


def test_requests_are_told_only_when_asked_for(sample: Serving) -> None:
    sample.get(FILE)
    lines = sample.errors.read_text().splitlines()
    assert [line.split()[0] for line in lines] == [
        "note:",
        "Linux:",
        "Linux:",
        "macOS:",
        "Windows:",
    ]
    assert sum(sample.password in line for line in lines) == 2


def test_a_port_in_use_is_refused_in_one_line(
    sample: Serving, ext4kit: Cli, unpacked: Images
) -> None:
    done = ext4kit("serve", unpacked(NAME).image, "--port", str(sample.port))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert str(sample.port) in done.stderr
