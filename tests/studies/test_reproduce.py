"""``pbim reproduce`` in real processes: continues after kill -9 and Ctrl-C, mends, gives the same on Ray."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pbim._files import alone
from pbim.cli import main
from pbim.errors import InputError
from pbim.results import CHECKPOINT, FINAL, METRICS, Store, frame

ROOT = Path(__file__).parent
STUDY = ["reproduce", "cliff-long-orthogonal", "--only", "none", "--checkpoint-every", "0"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Compiled programs are shared by all processes of these tests, and with nobody else."""
    return {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(tmp_path_factory.mktemp("compiled"))}


@pytest.fixture(scope="module")
def reference(tmp_path_factory, cache):
    """Ten seeds, never interrupted: two jobs."""
    out = tmp_path_factory.mktemp("whole")
    done = pbim(cache, *STUDY, "--seeds", "10", "--jobs", "2", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "[10/10] none seed" in done.stderr
    return Store(out)


def pbim(cache, *arguments):
    return subprocess.run(command(arguments), env=cache, capture_output=True, text=True, timeout=300)


def command(arguments):
    return [sys.executable, "-m", "pbim", *map(str, arguments)]


def started(cache, out, *arguments):
    """Start a study and return its process once a run of every job has a checkpoint."""
    process = subprocess.Popen(
        command([*STUDY, "--out", out, *arguments]),
        env=cache,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: list(out.glob(f"runs/*/{CHECKPOINT}")), process)
    return process


def wait_for(fact, process=None, seconds=180):
    end = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < end
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.05)


def workers_of(out):
    """Return the processes that work on a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"pbim.studies._worker" in words and str(out).encode() in words:
            found.append(int(path.parent.name))
    return found


def assert_same(store, reference, seeds):
    rows = {run.key: run for run in reference.runs()}
    runs = store.runs()
    assert [run.seed for run in runs] == list(range(seeds))
    for run in runs:
        assert run.state == "done"
        for name in (METRICS, FINAL):
            assert (run.folder / name).read_bytes() == (rows[run.key].folder / name).read_bytes()
        assert not (run.folder / CHECKPOINT).exists()


def test_killed_and_continued_is_the_uninterrupted_study(tmp_path, cache, reference):
    driver = started(cache, tmp_path, "--seeds", "3")
    driver.kill()
    driver.communicate()
    wait_for(lambda: not workers_of(tmp_path))
    assert {run.state for run in Store(tmp_path).runs()} <= {"running", "done"}
    assert list(tmp_path.glob(f"runs/*/{CHECKPOINT}"))
    again = pbim(cache, *STUDY, "--seeds", "3", "--out", tmp_path)
    assert again.returncode == 0, again.stderr
    assert_same(Store(tmp_path), reference, 3)
    assert not list(tmp_path.glob("runs/*/*.part"))
    third = pbim(cache, *STUDY, "--seeds", "3", "--out", tmp_path)
    assert "3 of 3 runs were already finished" in third.stderr
    assert frame(tmp_path).height == 3 * 10_000


def test_control_c_stops_children_and_says_how_to_continue(tmp_path, cache):
    driver = started(cache, tmp_path, "--seeds", "10", "--jobs", "1")
    assert workers_of(tmp_path)
    with pytest.raises(InputError, match="in use by another pbim"), alone(tmp_path):
        pass
    driver.send_signal(signal.SIGINT)
    _, said = driver.communicate(timeout=60)
    assert driver.returncode == 130
    assert "continue with pbim reproduce cliff-long-orthogonal --seeds 10 --only none" in said
    assert "Traceback" not in said
    assert not workers_of(tmp_path)


def test_a_damaged_run_is_named_set_aside_and_redone(tmp_path, cache, reference):
    import shutil

    shutil.copytree(reference.path, tmp_path / "copy")
    store = Store(tmp_path / "copy")
    run = store.runs()[7]
    (run.folder / METRICS).write_bytes(b"PAR1")
    done = pbim(cache, *STUDY, "--seeds", "10", "--out", store.path)
    assert done.returncode == 0, done.stderr
    assert f"set aside: '{run.folder / METRICS}'" in done.stderr
    assert "9 of 10 runs were already finished" in done.stderr
    assert_same(store, reference, 10)


def test_a_full_disk_is_one_sentence_and_costs_nothing_that_was_finished(tmp_path, cache, reference):
    """Files may not grow beyond so many bytes: first the plan does not fit, then the rows of a run."""

    limit = "import os, resource, sys; most = int(sys.argv[1]); "
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)); os.execv(sys.argv[2], sys.argv[2:])"

    def limited(most):
        words = [sys.executable, "-c", limit, str(most), *command([*STUDY, "--seeds", "1", "--out", tmp_path])]
        return subprocess.run(words, env=cache, capture_output=True, text=True, timeout=300)

    done = limited(100)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "File too large" in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == [".lock"]
    done = limited(20_000)
    assert done.returncode == 1
    assert "failed: none seed 0: OSError: [Errno 27] File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("*.part"))
    assert pbim(cache, *STUDY, "--seeds", "1", "--out", tmp_path).returncode == 0
    assert_same(Store(tmp_path), reference, 1)


def test_the_second_of_two_drivers_is_sent_away(tmp_path, cache, reference):
    driver = started(cache, tmp_path, "--seeds", "2")
    second = pbim(cache, *STUDY, "--seeds", "2", "--out", tmp_path)
    assert second.returncode == 2
    assert second.stderr == (
        f"pbim: out {str(tmp_path)!r} is in use by another pbim: wait for it, or pass another --out\n"
    )
    said = driver.communicate(timeout=300)[1]
    assert driver.returncode == 0, said
    assert_same(Store(tmp_path), reference, 2)


def test_a_damaged_checkpoint_is_named_set_aside_and_its_run_redone(tmp_path, cache, reference):
    driver = started(cache, tmp_path, "--seeds", "1")
    driver.kill()
    driver.communicate()
    wait_for(lambda: not workers_of(tmp_path))
    (path,) = tmp_path.glob(f"runs/*/{CHECKPOINT}")
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    done = pbim(cache, *STUDY, "--seeds", "1", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "set aside: " in done.stderr
    assert str(path) in done.stderr
    assert_same(Store(tmp_path), reference, 1)


def test_a_failing_run_is_reported_and_tried_again(tmp_path, cache):
    broken = {**cache, "JAX_PLATFORMS": "nowhere"}
    done = pbim(broken, *STUDY, "--seeds", "1", "--out", tmp_path)
    assert done.returncode == 1
    assert "failed: none seed 0" in done.stderr
    assert "Traceback" not in done.stderr
    (run,) = Store(tmp_path).runs()
    assert run.state == "failed"
    assert "nowhere" in run.status.error
    assert pbim(cache, *STUDY, "--seeds", "1", "--out", tmp_path).returncode == 0


@pytest.fixture
def cluster(cache):
    """Two Ray nodes on this machine: the process, and the address."""
    pytest.importorskip("ray")
    process = subprocess.Popen(
        [sys.executable, ROOT / "ray_cluster.py"],
        env=cache,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    address = next(line.strip() for line in process.stdout if line[0].isdigit())
    yield process, address
    process.communicate(timeout=60)


def test_published_runs_are_not_trained_again(tmp_path, cache, reference):
    """Ten of eleven are published: one is trained, and added to them."""
    published, out = tmp_path / "published", tmp_path / "out"
    assert pbim(cache, "report", reference.path, "--publish", published).returncode == 0
    done = pbim(cache, *STUDY, "--seeds", "11", "--out", out, "--published", published)
    assert done.returncode == 0, done.stderr
    assert "10 of 11 runs are published" in done.stderr + done.stdout
    assert [run.seed for run in Store(out).runs(lambda run: run.state == "done")] == [10]
    done = pbim(cache, "report", out, "--publish", published)
    assert "11 of 11 runs finished" in done.stdout, done.stderr


@pytest.mark.learning
def test_ray_gives_the_same_though_a_node_dies(tmp_path, cache, reference, cluster):
    process, address = cluster
    driver = started(cache, tmp_path, "--seeds", "10", "--engine", "ray", "--address", address)
    on_second = tmp_path / "runs" / reference.runs()[5].key / CHECKPOINT  # Ray fills the driver's node first
    wait_for(on_second.exists, driver)
    process.stdin.write("kill\n")
    process.stdin.flush()
    said = driver.communicate(timeout=300)[1]
    assert driver.returncode == 0, said
    assert "no answer: none seeds" in said
    assert said.count("none seed 7:") == 1
    assert_same(Store(tmp_path), reference, 10)


@pytest.mark.learning
def test_ray_gives_the_same_though_a_worker_and_the_driver_die(tmp_path, cache, reference, cluster):
    _, address = cluster
    arguments = ("--seeds", "5", "--engine", "ray", "--address", address)
    driver = started(cache, tmp_path, *arguments)
    (worker,) = children(cluster[0].pid, b"ray::work")
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: set(children(cluster[0].pid, b"ray::work")) - {worker}, driver)  # its job began again
    driver.kill()
    driver.communicate()
    wait_for(lambda: not children(cluster[0].pid, b"ray::work"))
    assert "done" not in {run.state for run in Store(tmp_path).runs()}
    again = pbim(cache, *STUDY, "--out", tmp_path, *arguments)
    assert again.returncode == 0, again.stderr
    assert_same(Store(tmp_path), reference, 5)


def children(session, title):
    """Return the processes of a session whose title starts so."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "cmdline").read_bytes().startswith(title) and os.getsid(int(path.name)) == session:
                found.append(int(path.name))
        except OSError:
            continue
    return found


def refused_by_ray(address, capsys, tmp_path):
    """Return what is said of an address, and after how many seconds."""
    start = time.monotonic()
    code = main(["reproduce", "cliff", "--engine", "ray", "--address", address, "--out", str(tmp_path / "out")])
    said = capsys.readouterr().err
    assert code == 2
    assert said.count("\n") == 1
    assert said.startswith("pbim: address must be of a running Ray cluster")
    assert not (tmp_path / "out").exists()
    return said, time.monotonic() - start


def test_a_dead_address_of_ray_is_one_sentence_at_once(tmp_path, capsys):
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        said, seconds = refused_by_ray(f"127.0.0.1:{port}", capsys, tmp_path)
        assert "no answer in 12 s" in said
        assert seconds < 20
    said, seconds = refused_by_ray(f"127.0.0.1:{port}", capsys, tmp_path)  # nobody listens any more
    assert "Connection refused" in said
    assert seconds < 5


def test_a_cluster_that_wants_a_token_is_not_called_absent(tmp_path, capsys, cache):
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = f"start --head --block --port {port} --num-cpus 1 --object-store-memory 80000000 --include-dashboard false"
    head = subprocess.Popen(
        [Path(sys.executable).parent / "ray", *words.split(), "--disable-usage-stats"],
        env={**cache, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        assert any("--block" in line for line in head.stdout)
        said, seconds = refused_by_ray(f"127.0.0.1:{port}", capsys, tmp_path)
        assert "it wants a token" in said
        assert "RAY_AUTH_TOKEN" in said
        assert seconds < 20
    finally:
        os.killpg(head.pid, signal.SIGKILL)
        head.communicate()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["clif"], "did you mean 'cliff'"),
        (["cliff", "--jobs", "0"], "jobs must be at least 1"),
        (["cliff", "--address", "here:1"], "address is for --engine ray"),
        (["cliff", "--only", "none", "--frames", "7"], "frames is for the DoorKey studies"),
        (["cliff", "--wandb", "mine"], "pip install wandb"),
        (["cliff", "--published", "nowhere"], "published must name a folder of published results"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(arguments, sentence, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert main(["reproduce", *arguments, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()
