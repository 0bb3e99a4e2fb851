"""The other examples, as users start them."""

import os
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
