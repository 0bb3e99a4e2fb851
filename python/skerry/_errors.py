"""What the verbs raise."""

import torch.distributed as dist

# The library's codes, as skerry.h has them.
ABORTED, LOST, TIMEOUT, MISMATCH, INVALID, CLOSED, UNSUPPORTED, NO_STORE, OTHER = range(1, 10)
(DRAINED, EVICTED, REFUSED, RANK_LOST, MAX_RETRIES, UNREACHABLE, DIFFERED, STATE_LOST, STEP_FAILED, STEP_OPEN,
 OTHER_STATE) = range(10, 21)


class Aborted(dist.DistBackendError):
    """An operation failed with its group, which is broken until it is configured anew.

    code: which kind of failure, one of the numbers above. rank: the culprit's rank, or
    -1. culprit: the culprit's id, or "".
    """

    def __init__(self, text: str, code: int = OTHER, rank: int = -1, culprit: str = ""):
        super().__init__(text)
        self.code, self.rank, self.culprit = code, rank, culprit


class Closed(Aborted):
    """A call on a group that is closed, or was never configured."""


class Forked(RuntimeError):
    """A call in a process that was forked after Skerry was loaded: its threads are not there."""


class TrainingEnded(RuntimeError):
    """A Manager cannot go on. code: why, one of the numbers above."""

    def __init__(self, text: str, code: int = OTHER):
        super().__init__(text)
        self.code = code


class Drained(TrainingEnded):
    """This replica has left in good order: end with status 0."""


class Evicted(TrainingEnded):
    """An operator or a policy took this replica out. A new process may join again."""


class Refused(TrainingEnded):
    """The lighthouse refuses this replica for good; the text says why. Asking again cannot help."""


class RankLost(TrainingEnded):
    """Another rank of this replica is gone: start all of its ranks again."""


class MaxRetries(TrainingEnded):
    """max_retries steps in a row were discarded."""


class Unreachable(TrainingEnded):
    """No lighthouse answered, or the others are out of reach."""


class Differed(TrainingEnded):
    """States differed, and the policy has it that this ends training."""


class StateLost(TrainingEnded):
    """All from which this replica was healing in place are gone: start the process anew."""


class OtherState(TrainingEnded):
    """The others' state has other tensors than this replica's."""


class StepOpen(RuntimeError):
    """start_quorum without should_commit behind the operations of the step before. It has ended now, discarded."""


class StepFailed(RuntimeError):
    """The step is lost already: go on with should_commit."""


_ends = {
    DRAINED: Drained, EVICTED: Evicted, REFUSED: Refused, RANK_LOST: RankLost, MAX_RETRIES: MaxRetries,
    UNREACHABLE: Unreachable, DIFFERED: Differed, STATE_LOST: StateLost, OTHER_STATE: OtherState,
}


def failure(code: int, text: str, rank: int = -1, culprit: str = "") -> Exception:
    """The exception for a failure that the library reports."""
    if code in _ends:
        return _ends[code](text, code)
    if code == STEP_OPEN:
        return StepOpen(text)
    if code == STEP_FAILED:
        return StepFailed(text)
    if code == INVALID:
        return ValueError(text)
    if code == UNSUPPORTED:
        return NotImplementedError(text)
    if code == CLOSED:
        return Closed(text, code, rank, culprit)
    if code == LOST:
        text += " [Connection closed by peer]"  # the words that programs look for in Gloo's
    if code == TIMEOUT:
        text += " [Gloo's: Timed out waiting; Socket Timeout]"  # those of its operations, and of its rendezvous
    return Aborted(text, code, rank, culprit)
