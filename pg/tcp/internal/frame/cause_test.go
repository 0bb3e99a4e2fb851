package frame

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skerry-ft/skerry/pg"
)

func FuzzCause(f *testing.F) {
	c := Cause{Code: CodeLost, Peer: 1, PeerID: "b", Kind: pg.KindBarrier, Seq: 8, Err: errors.New("x")}
	f.Add(c.Encode(), 4)
	f.Fuzz(func(t *testing.T, b []byte, world int) {
		world = max(world&0xff, 1)
		c, err := DecodeCause(b, "somebody", world)
		if err != nil {
			return
		}
		if c.Peer < -1 || c.Peer >= world || len(c.Err.Error()) > 4*maxText+100 || c.Code >= codeEnd {
			t.Errorf("accepted %+v", c)
		}
	})
}

func TestCauseRoundTrip(t *testing.T) {
	t.Parallel()
	for code := CodeUser; code < codeEnd; code++ {
		want := Cause{Code: code, Peer: 2, PeerID: "x:y", Kind: pg.KindScatter, Seq: 1 << 40, Err: errors.New("why")}
		got, err := DecodeCause(want.Encode(), "rank 1", 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, is := range code.sentinels() {
			if !errors.Is(got.Err, is) {
				t.Errorf("code %d: %v does not wrap %v", code, got.Err, is)
			}
		}
		got.Err, want.Err = nil, nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("code %d: %s", code, diff)
		}
	}
}
