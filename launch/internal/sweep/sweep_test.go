package sweep

import "testing"

// A mark is meant by itself, among those of other launchers, and by what it begins with.
func TestAmong(t *testing.T) {
	t.Parallel()
	for marks, want := range map[string]bool{
		"A": true, "A.0.1": true, "B,A.2": true, "A.0,B": true, "AB": false, "B.A": false, "": false, ",": false,
	} {
		if got := (Target{Mark: "A"}).among(marks); got != want {
			t.Errorf("%q: %t, want %t", marks, got, want)
		}
	}
	if (Target{}).among("A") {
		t.Error("no mark is every mark")
	}
}
