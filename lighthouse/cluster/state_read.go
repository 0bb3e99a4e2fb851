package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"github.com/skerry-ft/skerry/internal/boundjson"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/story"
)

// Bounds on a snapshot that is read: one of this server's data dir, or of a leader.
const (
	maxSnapshotBytes   = 8 << 30
	maxSnapshotFields  = 64
	maxJobBytes        = 256 << 20 // of one job's ledger
	maxJobObjects      = 1 << 17   // in it: two for each member, one for each accusation of its history
	maxSnapshotSkipped = 1 << 20   // of a field that this version does not know
)

// MaxJobs is how many jobs a ledger holds at most.
const MaxJobs = 1 << 16

// readState reads a snapshot, job by job: what is over a bound, or is no ledger, is
// refused with an error that names the job and the field.
func readState(r io.Reader) (replicated, error) {
	in := boundjson.NewDecoder(r, maxSnapshotBytes)
	data := newState().data
	err := in.Object("snapshot", maxSnapshotFields, func(name string) error {
		switch name {
		case "cluster":
			return in.Text(name, quorum.MaxIDBytes, &data.Cluster)
		case "jobs":
			return in.Object(name, MaxJobs, func(job string) error {
				l, err := readLedger(in, job)
				if err != nil {
					return fmt.Errorf("job %.300q: %w", job, err)
				}
				data.Jobs[job] = l
				return nil
			})
		case "retired":
			return in.List(name, maxRetired, func(n int) error {
				data.Retired = append(data.Retired, "")
				return in.Text(fmt.Sprintf("retired[%d]", n), wire.MaxServerIDBytes, &data.Retired[n])
			})
		case "floor":
			return in.Value(name, quorum.MaxIDBytes, &data.Floor)
		}
		var skipped json.RawMessage
		return in.Value(fmt.Sprintf("field %.40q", name), maxSnapshotSkipped, &skipped)
	})
	if err == nil {
		err = in.End()
	}
	if err == nil && (data.Floor < 0 || data.Floor > quorum.MaxStep) {
		err = fmt.Errorf("floor = %d, want 0 to %d", data.Floor, int64(quorum.MaxStep))
	}
	return data, err
}

// readLedger reads one job's ledger.
func readLedger(in *boundjson.Decoder, job string) (*jobState, error) {
	var text json.RawMessage
	if err := in.Value("ledger", maxJobBytes, &text); err != nil {
		return nil, err
	}
	if boundjson.Objects(text, maxJobObjects) > maxJobObjects {
		return nil, fmt.Errorf("ledger has over %d objects", maxJobObjects)
	}
	var l *jobState
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, err
	}
	if l == nil {
		return nil, errors.New("ledger is null")
	}
	if l.Job != job {
		return nil, fmt.Errorf("Job = %.300q, want the name that it stands under", l.Job)
	}
	l.Told = story.Keep(nil, l.Told)
	if l.Quorums < 0 || l.Quorums > quorum.MaxStep {
		l.Quorums = 0 // which is for people, and no reason to refuse the snapshot
	}
	l.Wanted = boundedWanted(l.Wanted)
	return l, l.Validate()
}

// checkSnapshot reads the newest snapshot that is kept, and returns why it is of no
// use. raft would begin from the one before it, whose log is cut off, and end the
// process when an entry in between is missing.
func checkSnapshot(snapshots raft.SnapshotStore) error {
	all, err := snapshots.List()
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	if len(all) == 0 {
		return nil
	}
	_, r, err := snapshots.Open(all[0].ID)
	if err != nil {
		return fmt.Errorf("open snapshot %s: %w", all[0].ID, err)
	}
	_, err = readState(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("read snapshot %s: %w", all[0].ID, err)
	}
	return nil
}
