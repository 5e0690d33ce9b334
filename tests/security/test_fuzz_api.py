"""Every route of the API, the tools and MCP, asked in ways that no client would, of a server under ASan and UBSan."""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
SECONDS = os.environ.get("ATOLL_FUZZ_API_SECONDS", "60")
LIMIT_S = 900  # beside the time of asking: the start and the end of a sanitized daemon


def test_no_request_breaks_the_server_or_shows_another_team():
    """Wrong types, sizes, nesting, duplicates, foreign ids, ids of dead objects and clients that leave, sent to every
    route with the keys of two teams, make the server neither crash, answer 500, nor show one team the other's."""
    done = subprocess.run([sys.executable, HERE / "fuzz_api.py", "--seconds", SECONDS], capture_output=True, text=True,
                          timeout=float(SECONDS) + LIMIT_S)
    print(done.stdout[-20000:])
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-4000:]
