"""Previews: what looks like a secret never gets out, and nothing does anything to a terminal."""

from __future__ import annotations

import time

import pytest

from sandgate_gateway.audit.redaction import CUT, MASK, preview

SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    "text",
    [
        f"API_KEY={SECRET} ./run",
        f"export GITHUB_TOKEN='{SECRET}'",
        f'DB_PASSWORD="{SECRET} {SECRET}" psql',
        f"env my-secret={SECRET} x",
        f"curl -H 'Authorization: Bearer {SECRET}' https://example.org",
        f'curl -H "authorization: Basic {SECRET}=="',
        f"curl --header 'X-Api-Key: {SECRET}'",
        f"curl https://user:{SECRET}@example.org/path",
        f"git clone https://{SECRET}@github.com/a/b",
        f"postgres://app:{SECRET}@db/main",
        f"curl -u bob:{SECRET} https://example.org",
        f"curl --user 'bob:{SECRET}' https://example.org",
        f"tool --password {SECRET}",
        f"tool --password={SECRET}",
        f"tool --api-key '{SECRET}'",
        f"login -token {SECRET}",
        f'{{"password": "{SECRET}"}}',
        f"password: {SECRET}",
        f"echo bearer {SECRET}",
        f"aws_secret_access_key = {SECRET}",
        f"Cookie: session={SECRET}",
        f"PASS={SECRET}",
        "git push https://ghp_hunter2hunter2hunter2hunter2@github.com",
        "echo ghp_hunter2hunter2hunter2hunter2",
        "echo github_pat_hunter2hunter2hunter2hunter2",
        "x sk-hunter2hunter2hunter2hunter2",
        "x xoxb-hunter2hunter2",
        "x eyJhunter2hunter2.eyJhunter2hunter2.hunter2hunter2",
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n{SECRET}",
        f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,AB\n\n{SECRET}\n-----END",
        f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{SECRET}\n-----END PGP PRIVATE KEY BLOCK-----",
        # Behind a name that is no secret's.
        f"curl https://api.example.org/v1?access_token={SECRET}",
        f"URL=https://h/?token={SECRET} run",
        f"kubectl create secret generic x --from-literal=password={SECRET}",
        f"docker run --env=PASSWORD={SECRET} image",
        f'sh -c "tool --password {SECRET}"',
        # Quotes and escapes.
        f'curl -d "{{\\"password\\": \\"{SECRET}\\"}}" https://x',
        f'curl -d "{{\\"password\\": \\"two words {SECRET}\\"}}" https://x',
        f'PASSWORD="a\\"{SECRET}" run',
        f'PASSWORD=a"{SECRET}"b run',
        f"PASSWORD=a\\ {SECRET} run",
        f"PASSWORD=a,{SECRET} run",
        f"PASSWORD=$'{SECRET}' run",
        f"headers={{'Authorization': f'Token {SECRET}'}}",
        f"curl -u bob:'{SECRET}' https://x",
        f'curl --user "bob":"{SECRET}" https://x',
        # Other ways to say that a name has a value.
        f'os.environ["TOKEN"] = "{SECRET}"',
        f'password := "{SECRET}"',
        f"'password' => '{SECRET}'",
        f'if password == "{SECRET}":',
        f'password: str = "{SECRET}"',
        f"password: |\n  {SECRET}",
        f"read -r PASSWORD <<< {SECRET}",
        f"machine h login bob password {SECRET}",
        f"CREATE USER a IDENTIFIED BY '{SECRET}'",
        f"setenv API_KEY {SECRET}",
        f"aws configure set aws_secret_access_key {SECRET}",
        f"DBPASS={SECRET} run",
        f"userPass={SECRET}",
        f'curl "https://b/x?sv=1&sig={SECRET}"',
        f'curl -H "Cookie: a=b; c={SECRET}" https://x',
        f"git clone https://bob:p@{SECRET}@example.org/x",
        # Options of one letter.
        f"curl -ubob:{SECRET} https://x",
        f"mysql -u root -p{SECRET} db",
        f"sshpass -p {SECRET} ssh x",
        f"docker login -u me -p {SECRET} registry",
        f"redis-cli -a {SECRET} ping",
        f"ldapsearch -w {SECRET} -x",
        f"zip -P {SECRET} a.zip b",
        # Shapes.
        "x sk_live_hunter2hunter2",
        "x hf_hunter2hunter2hunter2hunter2",
        "x pypi-AgEIhunter2hunter2hunter2",
        "x ya29.hunter2hunter2hunter2",
        "x hvs.hunter2hunter2hunter2",
        "curl https://hooks.slack.com/services/T000/B000/hunter2",
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str) -> None:
    """The value is gone, its place is marked, and the record can say so."""
    made = preview(text)
    assert "hunter2" not in made.text
    assert MASK in made.text
    assert made.masked


@pytest.mark.parametrize(
    "text",
    [
        "ls -la /mnt/user-data",
        "python3 -m pytest -q --maxfail 3",
        "grep -rn 'def main' src | head -20",
        "COUNT=3 ./run --name value",
        "curl https://example.org/path?x=1",
        "git commit -m 'a@b'",
        "sort -k 2",
        "mysql -p -u root db",
        "cat disk-usage-report-2024-01.txt",
        "export PATH=$PATH:/x; make test",
        "awk -F: '{print $1}' /etc/passwd",
        "set -euo pipefail; ls",
        "git push -u origin main",
    ],
)
def test_ordinary_commands_are_shown_as_they_are(text: str) -> None:
    """Nothing is masked where nothing looks like a secret."""
    made = preview(text)
    assert made.text == text
    assert not made.masked
    assert not made.cut


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('curl -H "X-Api-Key: abc" https://x "y z"', 'curl -H "X-Api-Key: [masked]" https://x "y z"'),
        ('curl "https://h/?a=1&token=abc&b=2"', 'curl "https://h/?a=1&token=[masked]&b=2"'),
        ('{"password": "x", "user": "me", "k": [1]}', '{"password": [masked], "user": "me", "k": [1]}'),
        ('curl -H "authorization: Basic abc==" -d "x"', 'curl -H "authorization: [masked]" -d "x"'),
    ],
)
def test_what_stands_around_a_secret_is_shown(text: str, shown: str) -> None:
    """Only the value goes, so that a reader still knows the command."""
    assert preview(text).text == shown


def test_a_preview_is_short() -> None:
    """At most 200 characters and a mark that there is more."""
    made = preview("x" * 201)
    assert made.text == "x" * 200 + CUT
    assert made.cut
    assert preview("x" * 200).text == "x" * 200


def test_masking_comes_before_cutting() -> None:
    """A secret that would be cut in half is masked as a whole."""
    text = "x " * 95 + f"TOKEN={'s3cret' * 50}"
    assert "s3cret" not in preview(text).text


def test_a_secret_at_the_end_of_what_is_looked_at_is_not_shown_by_half() -> None:
    """A long text is searched up to a limit; the word at that limit is left out, for half a secret has no shape."""
    text = "TOKEN=" + "a" * 3000 + " " + " " * 1080 + "ghp_hunter2" + "z" * 5000
    made = preview(text)
    assert "hunter2" not in made.text
    assert made.cut


def test_terminals_are_safe() -> None:
    """Control, bidirectional and half characters are shown as escapes."""
    made = preview("a\nb\x1b[31m\u202e\ud800\x00é")
    assert made.text == "a\\nb\\x1b[31m\\u202e\\ud800\\x00é"


@pytest.mark.parametrize(
    "text",
    [
        "a" * 100_000,
        "a-" * 50_000,
        "key" * 30_000,
        "key=" * 30_000,
        "--key " * 30_000,
        "x://" * 30_000,
        "x:" * 50_000,
        "'" * 100_000,
        '"' * 100_000,
        "authorization: " * 10_000,
        "eyJaaaaaaaa." * 10_000,
        "-----BEGIN " * 10_000,
        " " * 100_000,
        "-u a:" * 20_000,
        "mysql " * 20_000,
        "ldap" * 20_000,
        "login -p" * 20_000,
        "key= " * 20_000,
        'key="' * 20_000,
        "key=\\" * 20_000,
        'key=\\"' * 20_000,
        "key=a,'" * 20_000,
        "x://" + "a@" * 20_000,
        "-u '" * 20_000,
        "password " * 20_000,
        "set key " * 20_000,
        "-----BEGIN PRIVATE KEY-----" * 5_000,
    ],
    ids=lambda text: text[:12],
)
def test_hostile_text_costs_little(text: str) -> None:
    """No text makes the patterns slow: an agent must not be able to hold up the event loop."""
    started = time.process_time()
    preview(text)
    assert time.process_time() - started < 0.1
