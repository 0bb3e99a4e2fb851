package torchft_test

import (
	"net"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/manager/torchft"
)

// A manager that strangers would reach, or peers would not, is refused with what to
// set; and a lighthouse that nobody knows, within seconds.
func TestWhereManagersListen(t *testing.T) {
	t.Parallel()
	outward, ok := netaddr.Outward()
	if !ok {
		t.Skip("this host has no address beyond loopback")
	}
	far := net.JoinHostPort(outward.String(), "29510")
	for name, tc := range map[string]struct {
		cfg  torchft.Config
		want []string // of the refusal; none: it listens
	}{
		"all on this host": {torchft.Config{Lighthouse: []string{"http://127.0.0.1:1"}}, nil},
		"beyond it":        {torchft.Config{Lighthouse: []string{"127.0.0.1:1"}, Listen: outward.String() + ":0"}, []string{"other hosts reach " + outward.String(), "--open"}},
		"beyond it, open":  {torchft.Config{Lighthouse: []string{far}, Listen: outward.String() + ":0", Open: true}, nil},
		"out of reach":     {torchft.Config{Lighthouse: []string{"http://" + far}}, []string{"127.0.0.1:0 (--listen) is loopback", far, "set it to " + outward.String() + ":0", "--open"}},
		"nobody's name":    {torchft.Config{Lighthouse: []string{"nohost.invalid:1"}}, []string{"lighthouse nohost.invalid:1: ", `find the address of "nohost.invalid"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.cfg.ReplicaID, tc.cfg.StoreAddress = "r:u", "127.0.0.1:1"
			s, err := torchft.New(tc.cfg)
			if err == nil {
				if err := s.Close(); err != nil || tc.want != nil {
					t.Errorf("it listens at %s; %v", s.Address(), err)
				}
				return
			}
			if tc.want == nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v", err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
		})
	}
}
