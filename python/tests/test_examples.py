"""The other examples, as users start them."""

import json
import os
import subprocess
import sys
import textwrap

import trainers

EXAMPLES = os.path.join(trainers.ROOT, "python/examples")


def test_transformer(replica):
    args = ("--pretrain", 3, "--steps", 8, "--linger", 1)
    ends = [replica(name, *args, program=os.path.join(EXAMPLES, "transformer.py")) for name in "ab"]
    for r in ends:
        r.end()
    final = {r.output.split("final loss ")[1].split()[0] for r in ends}
    assert len(final) == 1, "replicas end with other weights"


def test_fsdp2_inside_of_replicas(replica, tmp_path):
    """Two ranks shard the model of each replica; shards are averaged, and equal, over replicas."""
    program = tmp_path / "torchrun.py"
    program.write_text(textwrap.dedent("""
        import sys
        from torch.distributed.run import main
        main(sys.argv[1:])
    """))
    made = []
    for name in "ab":
        made.append(replica(
            name, "--nproc-per-node", 2, "--master-port", trainers.port(), os.path.join(EXAMPLES, "fsdp2.py"), "--steps", 30, "--step-time", 0.02,
            program=str(program),
        ))
    for r in made:
        r.end()
    assert trainers.same_after_each_step(made) == 30


def test_the_demo(skerry_binary):
    """`skerry demo --trainer python`, with kills: the report says that all went well."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    args = ["--trainer", "python", "--replicas", "2", "--steps", "80", "--kill-every", "30", "--step-time", "20ms", "--json"]
    done = subprocess.run([skerry_binary, "demo", *args], env=dict(os.environ, PATH=path), capture_output=True, text=True, timeout=trainers.PATIENCE)
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout)
    assert report["parity"] and report["steps"] == 80 and report["kills"] >= 1
    assert report["test_accuracy"] > 0.7
