package lighthouse

// takeBeats gives the beats that wait to the rules. What a stream said before it
// was replaced, or its job began anew, is not the word of the one that followed
// it; what the rules refuse is about an older quorum, or from an unknown replica.
func (j *job) takeBeats() {
	for _, h := range j.beats.Take() {
		if j.sessions[h.From.id] == h.From {
			now := j.now()
			if j.machine.Beat(now, h.From.id, h.Beat) == nil {
				j.steps.Heard(now, h.Beat.Position.Step)
			}
		}
	}
}
