package manager

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/manager/internal/env"
	"github.com/skerry-ft/skerry/pg/debug"
)

// FromEnv fills the fields that are still zero from the environment that
// launchers of torch.distributed and torchft set, and from our own:
//
//	SKERRY_LIGHTHOUSE, else TORCHFT_LIGHTHOUSE   Lighthouse, comma separated
//	SKERRY_JOB                                   Job
//	REPLICA_GROUP_ID                             ReplicaID
//	RANK, WORLD_SIZE                             GroupRank, GroupWorldSize
//	MASTER_ADDR, MASTER_PORT                     GroupStore (with WORLD_SIZE > 1), TORCHELASTIC_RESTART_COUNT its prefix
//	SKERRY_STEP_TIMEOUT, else TORCHFT_TIMEOUT_SEC  StepTimeout: "90s", "2m"; torchft's in seconds
//	SKERRY_HEAL_TIMEOUT                          HealTimeout
//	SKERRY_PARITY_EVERY, SKERRY_PARITY_WHOLE     ParityEvery, ParityWhole (true or false)
//	SKERRY_ON_DIFFERING                          OnDiffering: heal, end or stop
//	SKERRY_PLAIN_GROUP_STORE                     PlainGroupStore, true or false
//	SKERRY_LISTEN, SKERRY_ADVERTISE              Listen ("host" or "host:port"), Advertise
//	SKERRY_TLS_CA, SKERRY_TLS_CERT, SKERRY_TLS_KEY, SKERRY_TLS_SERVER_NAME,
//	SKERRY_TLS_DATA, SKERRY_TOKEN_FILE, SKERRY_TOKEN, SKERRY_OPEN Guard
//	those of debug.Config.FromEnv              Debug
//
// Of torchft's, TORCHFT_QUORUM_TIMEOUT_SEC, TORCHFT_CONNECT_TIMEOUT_SEC and
// TORCHFT_QUORUM_RETRIES have no counterpart: those waits derive from StepTimeout, and a
// request is made until its answer is there (see Timeouts); nor has TORCHFT_MANAGER_PORT: SKERRY_LISTEN
// has a host, too. Where one is set, Log says so.
//
// It returns every problem it finds, joined. A spare of skerry run waits first, by launch/spare.Wait.
func (c *Config) FromEnv() error {
	problems := []error{env.Place()}
	if len(c.Lighthouse) == 0 {
		var err error
		c.Lighthouse, err = env.Servers("SKERRY_LIGHTHOUSE", "TORCHFT_LIGHTHOUSE")
		problems = append(problems, err)
	}
	c.Job = cmp.Or(c.Job, os.Getenv("SKERRY_JOB"))
	c.ReplicaID = cmp.Or(c.ReplicaID, os.Getenv("REPLICA_GROUP_ID"))
	if c.GroupRank == 0 && c.GroupWorldSize == 0 {
		problems = append(problems, env.Int("RANK", &c.GroupRank), env.Int("WORLD_SIZE", &c.GroupWorldSize))
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
		if n := os.Getenv("TORCHELASTIC_RESTART_COUNT"); n != "" { // torchrun's store outlives its workers
			c.GroupStore += "/attempt_" + n
		}
	}
	problems = append(problems, env.Bool("SKERRY_PLAIN_GROUP_STORE", &c.PlainGroupStore), c.timeoutsFromEnv(), c.parityFromEnv())
	if c.Listen == "" {
		c.Listen = env.Listen("SKERRY_LISTEN")
	}
	c.Advertise = cmp.Or(c.Advertise, os.Getenv("SKERRY_ADVERTISE"))
	problems = append(problems, c.Guard.FromEnv(), c.debugFromEnv())
	return errors.Join(problems...)
}

// parityFromEnv reads how states are compared.
func (c *Config) parityFromEnv() error {
	policy, words := int(c.OnDiffering), []string{"heal", "end", "stop"} // as the constants are numbered
	err := errors.Join(
		env.Signed("SKERRY_PARITY_EVERY", &c.ParityEvery), env.Bool("SKERRY_PARITY_WHOLE", &c.ParityWhole),
		env.Word("SKERRY_ON_DIFFERING", words, &policy),
	)
	c.OnDiffering = Differing(policy)
	return err
}

// timeoutsFromEnv reads the budget of time: the two figures from which all others derive.
func (c *Config) timeoutsFromEnv() error {
	const derives = "that wait derives from StepTimeout"
	for name, why := range map[string]string{
		"TORCHFT_QUORUM_TIMEOUT_SEC": derives, "TORCHFT_CONNECT_TIMEOUT_SEC": derives, "TORCHFT_QUORUM_RETRIES": derives,
		"TORCHFT_MANAGER_PORT": "set SKERRY_LISTEN to host:port",
	} {
		if text := os.Getenv(name); text != "" {
			c.Log.Warn().Str("variable", name).Str("value", text).Msg("environment variable has no effect: " + why)
		}
	}
	var seconds int
	err := errors.Join(
		env.Duration("SKERRY_STEP_TIMEOUT", &c.StepTimeout),
		env.Duration("SKERRY_HEAL_TIMEOUT", &c.HealTimeout),
		env.Int("TORCHFT_TIMEOUT_SEC", &seconds),
	)
	c.StepTimeout = cmp.Or(c.StepTimeout, time.Duration(min(seconds, maxSeconds))*time.Second)
	return err
}

// maxSeconds is above what Validate allows, and far below what a Duration cannot hold.
const maxSeconds = 1 << 30

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
