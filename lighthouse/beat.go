package lighthouse

import "time"

// serverBeat is how often the sessions of a job hear from this server though it
// has nothing to say. 0: never, because there is no other server to go to.
func (j *job) serverBeat() time.Duration {
	if !j.leadership.server.cfg.Cluster.Several() {
		return 0
	}
	return j.rules.ServerBeat()
}
