package wire

import (
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// A link report is its session's replica's; what names no other end, or says too
// much, is refused or cut.
func TestLinkReport(t *testing.T) {
	t.Parallel()
	want := quorum.LinkReport{By: "a:1", To: "b:2", Holds: true, Evidence: "no answer"}
	got, err := LinkReportFromProto("a:1", overTheWire(t, LinkReportToProto(want)))
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if _, err := LinkReportFromProto("a:1", &skerrypb.LinkReport{}); err == nil {
		t.Error("a report about nobody is taken")
	}
	if _, err := LinkReportFromProto("a:1", nil); err == nil {
		t.Error("no report is taken")
	}
	long := LinkReportToProto(quorum.LinkReport{To: "b:2", Evidence: strings.Repeat("x", 2*MaxEvidenceBytes)})
	if got, err := LinkReportFromProto("a:1", long); err != nil || len(got.Evidence) != MaxEvidenceBytes {
		t.Errorf("%d bytes of evidence, %v; want %d", len(got.Evidence), err, MaxEvidenceBytes)
	}
}
