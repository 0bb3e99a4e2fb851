package web

import (
	"reflect"
	"testing"

	"github.com/skerry-ft/skerry/quorum"
)

// Prometheus scrapes who is there, each name once.
func TestTargets(t *testing.T) {
	t.Parallel()
	got := targetsOf(quorum.Status{Job: "j", Replicas: []quorum.ReplicaStatus{
		{ReplicaID: "a:1", Address: "http://h1:1", State: quorum.StateLost},
		{ReplicaID: "a:2", Address: "https://h1:2", State: quorum.StateLive},
		{ReplicaID: "b:1", Address: "http://h2:1", State: quorum.StateLive},
		{ReplicaID: "b:2", Address: "http://h2:2", State: quorum.StateJoined},
		{ReplicaID: "b:3", Address: "http://h2:3", State: quorum.StateHeld},
		{ReplicaID: "c:1", Address: "http://h3:1", State: quorum.StateEvicted},
		{ReplicaID: "d", State: quorum.StateHeard},
		{ReplicaID: "rack:7:x", Address: "http://[::1]:9", State: quorum.StateDraining},
	}})
	want := []target{
		{[]string{"h1:2"}, map[string]string{"__scheme__": "https", "instance": "j/a"}},
		{[]string{"h2:2"}, map[string]string{"__scheme__": "http", "instance": "j/b"}},
		{[]string{"[::1]:9"}, map[string]string{"__scheme__": "http", "instance": "j/rack:7"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("targets %v, want %v", got, want)
	}
}
