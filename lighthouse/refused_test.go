package lighthouse_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/lighthouse"
)

// lockedLog keeps what a server logs.
type lockedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A refused join, of which torchft tells its ranks nothing, is a warning and is shown
// in the status, a bounded number of them.
func TestRefusedJoinsAreShown(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		var log lockedLog
		l := start(t, func(c *lighthouse.Config) { c.Log = zerolog.New(&log) })
		ctx, c := torchft(t, l)
		for i := range 200 {
			id := fmt.Sprintf("r%d", i)
			if i < 3 {
				id = "r0"
			}
			a := <-askWith(ctx, c, &torchftpb.QuorumMember{ReplicaId: id, WorldSize: 5_000})
			if status.Code(a.err) != codes.InvalidArgument {
				t.Fatalf("world size 5,000: %v", a.err)
			}
			if i != 2 {
				continue
			}
			st, err := l.Lighthouse.Status(t.Context())
			if err != nil || len(st.Refused) != 1 || st.Refused[0].ReplicaID != "r0" || st.Refused[0].Times != 3 ||
				!strings.Contains(st.Refused[0].Reason, "world_size = 5000, want 1 to 4096") {
				t.Errorf("refused %+v, %v", st.Refused, err)
			}
		}
		if st, err := l.Lighthouse.Status(t.Context()); err != nil || len(st.Refused) != 32 || st.Refused[0].ReplicaID != "r199" {
			t.Errorf("%d refused, %v; want the newest 32, the newest first", len(st.Refused), err)
		}
		if lines := strings.Count(log.String(), "join refused"); lines < 1 || lines > 100 || !strings.Contains(log.String(), `"replica_id":"r0"`) {
			t.Errorf("%d lines of 200 refusals, want a sample that names replicas:\n%.2000s", lines, log.String())
		}
	})
}

// What a large replica group says comes through; all of a job's together fit in an
// answer.
func TestMuchThatTorchftMembersSay(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, minReplicas(100))
		ctx, c := torchft(t, l)
		say := func(id string, data, handles int) *torchftpb.QuorumMember {
			m := &torchftpb.QuorumMember{ReplicaId: id, Data: strings.Repeat("x", data)}
			for range handles {
				m.ReconfigureHandles = append(m.ReconfigureHandles, strings.Repeat("h", 126))
			}
			return m
		}
		for _, m := range []*torchftpb.QuorumMember{say("a", wire.MaxTorchftDataBytes+1, 0), say("a", 0, 2_049)} {
			if a := <-askWith(ctx, c, m); status.Code(a.err) != codes.InvalidArgument {
				t.Errorf("over the bound: %v", a.err)
			}
		}
		refused := make(chan error, 100)
		for i := range 70 { // of 256 KiB, and 16 MiB are allowed
			call := askWith(ctx, c, say(fmt.Sprintf("r%d", i), 64_000, 1_500))
			go func() { refused <- (<-call).err }()
		}
		if err := <-refused; status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "want at most 16777216") {
			t.Errorf("one too many: %v, want ResourceExhausted", err)
		}
		get(t, "a large replica group alone", askWith(ctx, torchftpb.NewLighthouseServiceClient(dial(t, start(t, nil).Addr)), say("big", 64_000, 2_000)))
	})
}
