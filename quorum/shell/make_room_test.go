package shell

import (
	"fmt"
	"testing"
)

// Which job makes room for another: none of those that train, none of a known founder for
// an unknown one, and of a host that names many the oldest.
func TestMakeRoom(t *testing.T) {
	t.Parallel()
	job := func(name string, began int64, host string, known, formed bool) NamedJob {
		return NamedJob{Name: name, Began: began, Formed: formed, Founder: Founder{Host: host, Known: known}}
	}
	trains, proved := job("trains", 1, "h1", false, true), job("proved", 2, "h1", true, false)
	a, b, c := job("a", 5, "h2", false, false), job("b", 4, "h2", false, false), job("c", 3, "h3", false, false)
	known, unknown := Founder{Host: "h9", Known: true}, Founder{Host: "h9"}
	for _, tc := range []struct {
		name string
		jobs []NamedJob
		by   Founder
		most int
		old  string
		room bool
	}{
		{"there is room", []NamedJob{trains, a}, unknown, 3, "", true},
		{"of the host with most, the oldest", []NamedJob{trains, a, b, c}, unknown, 4, "b", true},
		{"a known founder's goes last", []NamedJob{proved, c}, known, 2, "c", true},
		{"a known founder's goes for a known one", []NamedJob{trains, proved}, known, 2, "proved", true},
		{"not for an unknown one", []NamedJob{trains, proved}, unknown, 2, "", false},
		{"of equals the first by name", []NamedJob{job("y", 1, "h", false, false), job("x", 1, "h", false, false)}, unknown, 2, "x", true},
	} {
		if old, room := MakeRoom(tc.jobs, tc.by, tc.most); old != tc.old || room != tc.room {
			t.Errorf("%s: %q, %v, want %q, %v", tc.name, old, room, tc.old, tc.room)
		}
	}
	var many []NamedJob
	for i := range maxInvented {
		many = append(many, job(fmt.Sprintf("j%03d", i), int64(i), "h", false, false))
	}
	if old, room := MakeRoom(many, unknown, 1000); old != "j000" || !room {
		t.Errorf("one more than %d invented jobs: %q, %v, want j000 to go", maxInvented, old, room)
	}
	if old, room := MakeRoom(many, known, 1000); old != "" || !room {
		t.Errorf("a known founder beside %d invented jobs: %q, %v, want room", maxInvented, old, room)
	}
}
