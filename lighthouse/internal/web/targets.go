package web

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/skerry-ft/skerry/quorum"
)

// target is one of a list that http_sd_configs reads.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// serveTargets tells Prometheus which replicas to scrape (http_sd_configs): the managers
// of all jobs, which serve metrics on the port that they listen on, any free one by default.
// The label instance is job and name without the incarnation, so that the series of a
// replica that is started again go on.
func (s *Server) serveTargets(w http.ResponseWriter, r *http.Request) {
	all := []target{}
	for _, st := range s.cfg.Jobs(r.Context()) {
		if st.Client == quorum.KindSkerry { // torchft's managers have no metrics
			all = append(all, targetsOf(st)...)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(all) // a reader who has gone needs no error
}

// notThere are the states of a replica that answers no scrape, or under whose name another one does.
var notThere = []quorum.ReplicaState{quorum.StateLost, quorum.StateEvicted, quorum.StateDrained, quorum.StateLeft, quorum.StateHeld}

// targetsOf are the replicas of a job that are there: of two of one name, the last.
func targetsOf(st quorum.Status) (all []target) {
	at := make(map[string]int) // by name
	for _, r := range st.Replicas {
		u, err := url.Parse(r.Address)
		if err != nil || u.Host == "" || slices.Contains(notThere, r.State) {
			continue
		}
		name := string(r.ReplicaID)
		if i := strings.LastIndex(name, ":"); i > 0 {
			name = name[:i]
		}
		t := target{[]string{u.Host}, map[string]string{"__scheme__": u.Scheme, "instance": st.Job + "/" + name}}
		if i, twice := at[name]; twice {
			all[i] = t
			continue
		}
		at[name] = len(all)
		all = append(all, t)
	}
	return all
}
