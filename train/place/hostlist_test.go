package place_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/train/place"
)

// Lists are expanded in their order, as scontrol show hostnames does.
func TestExpandHosts(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		"n1":                   "n1",
		"node[01-03,7]":        "node01 node02 node03 node7",
		"a,b[9-11],c":          "a b9 b10 b11 c",
		"r[1-2]n[08-09]-ib":    "r1n08-ib r1n09-ib r2n08-ib r2n09-ib",
		"login.lab,gpu[5].lab": "login.lab gpu5.lab",
		"x[099-101]":           "x099 x100 x101",
	} {
		if got, err := place.ExpandHosts(list); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s is %v, %v; want %s", list, got, err, want)
		}
	}
}

// What is no list, or too long a one, is refused by what is wrong.
func TestExpandHostsRefuses(t *testing.T) {
	t.Parallel()
	for list, says := range map[string]string{
		"": "no name of a host", "a,": "no name of a host", "a b": "no name of a host",
		"n[1-2": "not closed", "n[1]]": "out of place", "n[[1]]": "out of place",
		"n[]": "want a number", "n[2-1]": "want a number", "n[a-b]": "want a number", "n[1--2]": "want a number", "n[-1]": "want a number",
		"n[0-2000000]":              "more than 1048576 numbers",
		"n[0-2000]m[0-2000]":        "more than 1048576",
		"n[0-1048575],m":            "bytes of names",
		strings.Repeat("a,", 1<<20): "want at most 1048576",
	} {
		got, err := place.ExpandHosts(list)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.20s: %d hosts, %v; want %s", list, len(got), err, says)
		}
	}
}

// FuzzExpandHosts: no list makes it panic, or give more than its bounds, or what is no list
// itself.
func FuzzExpandHosts(f *testing.F) {
	for _, list := range []string{"node[01-03,7]", "r[1-2]n[08-09]-ib,x", "n[0-99999999]", "[1]", "a[1-2", "n[000000000001]"} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		hosts, err := place.ExpandHosts(list)
		if err != nil {
			if hosts != nil {
				t.Errorf("%q: %d hosts and %v", list, len(hosts), err)
			}
			return
		}
		if len(hosts) == 0 || len(hosts) > place.MaxWorldSize || len(strings.Join(hosts, "")) > place.MaxTextBytes {
			t.Errorf("%q: %d hosts", list, len(hosts))
		}
		if len(hosts) > 1000 {
			return
		}
		again, err := place.ExpandHosts(strings.Join(hosts, ","))
		if err != nil || !slices.Equal(again, hosts) {
			t.Errorf("%q is %v, which is %v, %v", list, hosts, again, err)
		}
	})
}
