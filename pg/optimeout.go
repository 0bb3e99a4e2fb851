package pg

import "time"

// OpTimeout is for backends: how long an op, or a Configure, without a deadline of its
// own may take.
func (c Config) OpTimeout() time.Duration {
	if c.Timeout > 0 {
		return c.Timeout
	}
	return DefaultTimeout
}
