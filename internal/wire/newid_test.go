package wire

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/quorum"
)

const anyUUID = ":7f0a1d9c-5f0e-4b53-9a43-0b8f6d3c2e11"

// refusedIDs are ids that a screen does not show as they are, and what the error says
// is wanted.
var refusedIDs = map[string]string{
	"":                                       "1 to 256 bytes",
	" ":                                      "visible",
	"   " + anyUUID:                          "visible", // torchft's "name:uuid"
	"\u3164\u115f":                           "visible", // fillers, which are letters
	"\u2800\ufe0f":                           "visible", // blank braille, a variation selector
	"live\u202eevil" + anyUUID:               "U+202E",  // right to left from here
	"\u2066a\u2069":                          "U+2066",
	"a\u200bb":                               "byte 1 begins U+200B", // of no width
	"\ufeffa":                                "U+FEFF",
	"a\u00adb":                               "U+00AD",
	"a\u00a0b":                               "U+00A0", // does not break
	"a\u3000b":                               "U+3000", // as wide as an ideograph
	"a\u2028b":                               "U+2028",
	"\U000e0041":                             "U+E0041", // tags
	"a\x1b[2Jb":                              "control",
	"a\xffb":                                 "UTF-8",
	strings.Repeat("x", MaxReplicaIDBytes+1): "at most 256 bytes, not 257",
	strings.Repeat("\u202e", 1<<20/3):        "at most 256 bytes, not 1048575",
}

// Ids that no person could read are refused from the replica that comes with one, by
// every message that brings it, and the error repeats them harmlessly.
func TestUnreadableIDsAreRefused(t *testing.T) {
	t.Parallel()
	for id, want := range refusedIDs {
		_, alone := CheckReplicaID(id)
		_, hello := HelloFromProto(&skerrypb.SessionHello{ReplicaId: id, GroupWorldSize: 1})
		_, torchft := MemberFromTorchft(&torchftpb.QuorumMember{ReplicaId: id})
		for by, err := range map[string]error{"alone": alone, "hello": hello, "torchft": torchft} {
			if !errors.Is(err, quorum.ErrInvalid) {
				t.Errorf("%s: id %.40q: error %v, want quorum.ErrInvalid", by, id, err)
				continue
			}
			text := err.Error()
			if !strings.Contains(text, want) || !strings.Contains(text, "replica_id = \"") || len(text) > 500 {
				t.Errorf("%s: id %.40q: %q, want one with the value and %q", by, id, text, want)
			}
			if i := strings.IndexFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }); i >= 0 {
				t.Errorf("%s: the error for %.40q is not printable at %d: %q", by, id, i, text)
			}
		}
	}
}

func TestReadableIDsAreTaken(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"a", "replica-0" + anyUUID, "a b", " a", "réplica_0", "复制品", "عربي", "❤️", "digits/replica_0:1",
		"<script>alert(1)</script>", anyUUID, strings.Repeat("x", MaxReplicaIDBytes)} {
		if got, err := CheckReplicaID(id); err != nil || string(got) != id {
			t.Errorf("CheckReplicaID(%q) = %q, %v", id, got, err)
		}
	}
}

// What was let in before stays: a ledger, an older lighthouse and an operator who puts
// it out may name it.
func TestOldIDsAreKnown(t *testing.T) {
	t.Parallel()
	for _, id := range []string{" ", "live\u202eevil" + anyUUID, "a\u200bb", "a\u00a0b"} {
		if got, err := CheckKnownID(id); err != nil || string(got) != id {
			t.Errorf("CheckKnownID(%q) = %q, %v", id, got, err)
		}
		m := sampleMember(quorum.ReplicaID(id))
		if got, err := memberFromProto(overTheWire(t, MemberToProto(m))); err != nil || got != m {
			t.Errorf("member %q became %+v, %v", id, got, err)
		}
	}
}

// Texts for people keep to one line and to their direction; huge ones are cut before
// they are read.
func TestTextIsHarmless(t *testing.T) {
	t.Parallel()
	if got, want := Text("evil\u202egnp.exe\u2028\u200bnext"), "evil gnp.exe  next"; got != want {
		t.Errorf("Text = %q, want %q", got, want)
	}
	huge := strings.Repeat("\xff", 1<<20)
	if got := Text(huge); len(got) > MaxTextBytes || !strings.HasSuffix(got, "…") {
		t.Errorf("Text has %d bytes and ends with %q", len(got), got[len(got)-3:])
	}
}
