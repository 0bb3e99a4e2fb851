package manager

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/manager/internal/session"
	"github.com/skerry-ft/skerry/pg/debug"
)

// FromEnv fills the fields that are still zero from the environment that
// launchers of torch.distributed and torchft set, and from our own:
//
//	SKERRY_LIGHTHOUSE, else TORCHFT_LIGHTHOUSE   Lighthouse, comma separated
//	SKERRY_JOB                                   Job
//	REPLICA_GROUP_ID                             ReplicaID
//	RANK, WORLD_SIZE                             GroupRank, GroupWorldSize
//	MASTER_ADDR, MASTER_PORT                     GroupStore (with WORLD_SIZE > 1)
//	SKERRY_STEP_TIMEOUT, else TORCHFT_TIMEOUT_SEC  StepTimeout: "90s", "2m"; torchft's in seconds
//	SKERRY_HEAL_TIMEOUT                          HealTimeout
//	SKERRY_PLAIN_GROUP_STORE                     PlainGroupStore, true or false
//	SKERRY_LISTEN, SKERRY_ADVERTISE              Listen ("host" or "host:port"), Advertise
//	SKERRY_TLS_CA, SKERRY_TLS_CERT, SKERRY_TLS_KEY, SKERRY_TLS_SERVER_NAME,
//	SKERRY_TLS_DATA, SKERRY_TOKEN_FILE, SKERRY_TOKEN, SKERRY_OPEN Guard
//	those of debug.Config.FromEnv              Debug
//
// Of torchft's, TORCHFT_QUORUM_TIMEOUT_SEC, TORCHFT_CONNECT_TIMEOUT_SEC and
// TORCHFT_QUORUM_RETRIES have no counterpart: those waits derive from StepTimeout, and a
// request is made until its answer is there (see Timeouts). Where one is set, Log says so.
//
// It returns every problem it finds, joined.
func (c *Config) FromEnv() error {
	var problems []error
	if len(c.Lighthouse) == 0 {
		var err error
		c.Lighthouse, err = serversFrom("SKERRY_LIGHTHOUSE", "TORCHFT_LIGHTHOUSE")
		problems = append(problems, err)
	}
	c.Job = cmp.Or(c.Job, os.Getenv("SKERRY_JOB"))
	c.ReplicaID = cmp.Or(c.ReplicaID, os.Getenv("REPLICA_GROUP_ID"))
	if c.GroupRank == 0 && c.GroupWorldSize == 0 {
		problems = append(problems, intFrom("RANK", &c.GroupRank), intFrom("WORLD_SIZE", &c.GroupWorldSize))
	}
	host, port := os.Getenv("MASTER_ADDR"), os.Getenv("MASTER_PORT")
	if c.GroupStore == "" && c.GroupWorldSize > 1 && host != "" {
		if port == "" {
			problems = append(problems, fmt.Errorf("MASTER_PORT is not set, though MASTER_ADDR = %q is", host))
		}
		if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
			host = "[" + host + "]"
		}
		c.GroupStore = host + ":" + port
	}
	if text := os.Getenv("SKERRY_PLAIN_GROUP_STORE"); text != "" && !c.PlainGroupStore {
		var err error
		if c.PlainGroupStore, err = strconv.ParseBool(text); err != nil {
			problems = append(problems, fmt.Errorf("SKERRY_PLAIN_GROUP_STORE = %q, want true or false", text))
		}
	}
	problems = append(problems, c.timeoutsFromEnv())
	if c.Listen == "" {
		c.Listen = listenFrom(os.Getenv("SKERRY_LISTEN"))
	}
	c.Advertise = cmp.Or(c.Advertise, os.Getenv("SKERRY_ADVERTISE"))
	problems = append(problems, c.Guard.FromEnv(), c.debugFromEnv())
	return errors.Join(problems...)
}

// timeoutsFromEnv reads the budget of time: the two figures from which all others derive.
func (c *Config) timeoutsFromEnv() error {
	for _, name := range []string{"TORCHFT_QUORUM_TIMEOUT_SEC", "TORCHFT_CONNECT_TIMEOUT_SEC", "TORCHFT_QUORUM_RETRIES"} {
		if text := os.Getenv(name); text != "" {
			c.Log.Warn().Str("variable", name).Str("value", text).Msg("environment variable has no effect: that wait derives from StepTimeout")
		}
	}
	var seconds int
	err := errors.Join(
		durationFrom("SKERRY_STEP_TIMEOUT", &c.StepTimeout),
		durationFrom("SKERRY_HEAL_TIMEOUT", &c.HealTimeout),
		intFrom("TORCHFT_TIMEOUT_SEC", &seconds),
	)
	c.StepTimeout = cmp.Or(c.StepTimeout, time.Duration(min(seconds, maxSeconds))*time.Second)
	return err
}

// maxSeconds is above what Validate allows, and far below what a Duration cannot hold.
const maxSeconds = 1 << 30

// durationFrom fills a duration that is still zero.
func durationFrom(name string, to *time.Duration) error {
	text := os.Getenv(name)
	if text == "" || *to != 0 {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return fmt.Errorf("%s = %q, want a time above 0, as 90s or 2m", name, text)
	}
	*to = d
	return nil
}

// listenFrom adds any free port to a host without one.
func listenFrom(text string) string {
	if _, _, err := net.SplitHostPort(text); err == nil || text == "" {
		return text
	}
	return net.JoinHostPort(strings.Trim(text, "[]"), "0")
}

// debugFromEnv makes a Debugger if the environment wants anything of it.
func (c *Config) debugFromEnv() error {
	d := debug.Config{Log: c.Log}
	if err := d.FromEnv(); err != nil {
		return err
	}
	if c.Debug == nil && (d.Level != debug.Off || d.Trace != nil) {
		c.Debug = debug.New(d)
	}
	return nil
}

// serversFrom splits the first of the named variables that is not empty. One that
// names no server all the same is an error: what it was to say is lost.
func serversFrom(names ...string) ([]string, error) {
	for _, name := range names {
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		list := session.Addresses([]string{text})
		if len(list) == 0 {
			return nil, fmt.Errorf("%s = %q, want the address of at least one lighthouse server, host:port", name, text)
		}
		return list, nil
	}
	return nil, nil
}

func intFrom(name string, to *int) error {
	text := os.Getenv(name)
	if text == "" {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return fmt.Errorf("%s = %q, want a number >= 0", name, text)
	}
	*to = n
	return nil
}
