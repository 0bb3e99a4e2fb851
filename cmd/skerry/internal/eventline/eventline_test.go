package eventline

import (
	"fmt"
	"testing"
)

func TestLinesSplit(t *testing.T) {
	t.Parallel()
	type event struct {
		Kind string `json:"event"`
	}
	var got []string
	l := &Lines[event]{Each: func(e event) {
		if e.Kind != "" {
			got = append(got, e.Kind)
		}
	}}
	text := `{"event":"a"}` + "\nnoise\n{}\n" + `{"event":"b"}` + "\n" + `{"event":"c"`
	for i := range len(text) {
		if n, err := l.Write([]byte(text[i : i+1])); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if fmt.Sprint(got) != "[a b]" {
		t.Errorf("events %v, want [a b]", got)
	}
	for range 3 {
		_, _ = l.Write(make([]byte, MaxBytes)) // never fails
	}
	if len(l.rest) > MaxBytes {
		t.Errorf("%d bytes are kept of a line without end", len(l.rest))
	}
}
