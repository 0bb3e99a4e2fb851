package frame

import (
	"bytes"
	"testing"

	"github.com/skerry-ft/skerry/pg"
)

func TestBallotRoundTrip(t *testing.T) {
	t.Parallel()
	for _, want := range []pg.Digest{{}, {Sum: 7}, {Valid: true}, {Valid: true, Sum: 0xfedcba98}} {
		b := bytes.Repeat([]byte{0xff}, BallotHead)
		PutDigest(b, want)
		d, payload, ok := DecodeBallot(append(b, "said"...))
		if d != want || string(payload) != "said" || !ok {
			t.Errorf("got %+v %q %v, want %+v", d, payload, ok, want)
		}
		if _, _, ok := DecodeBallot(b[:BallotHead-1]); ok {
			t.Error("a ballot without its head is taken")
		}
	}
}
