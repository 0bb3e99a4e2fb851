package debug

import (
	"fmt"
	"os"
	"strconv"

	"github.com/skerry-ft/skerry/pg/trace"
)

// The variables that LevelFromEnv and Config.FromEnv read. Skerry's
// own win over torch's.
const (
	EnvLevel       = "SKERRY_DISTRIBUTED_DEBUG" // OFF, INFO or DETAIL
	EnvTorchLevel  = "TORCH_DISTRIBUTED_DEBUG"  // the same
	EnvTraceSize   = "SKERRY_TRACE_BUFFER_SIZE" // ops to remember; 0: no Recorder
	EnvTorchTrace  = "TORCH_NCCL_TRACE_BUFFER_SIZE"
	EnvTraceFile   = "SKERRY_TRACE_DUMP_FILE" // prefix of the files that trace.Files writes
	EnvTorchFile   = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"
	EnvTraceOnFail = "SKERRY_TRACE_DUMP_ON_ERROR" // 0 or 1, the default: dump when a group breaks
	EnvTorchOnFail = "TORCH_NCCL_DUMP_ON_TIMEOUT" // 0 or 1
)

// LevelFromEnv is the level that SKERRY_DISTRIBUTED_DEBUG or else
// TORCH_DISTRIBUTED_DEBUG names; Off if neither is set.
func LevelFromEnv() (Level, error) {
	for _, name := range []string{EnvLevel, EnvTorchLevel} {
		if s := os.Getenv(name); s != "" {
			l, err := ParseLevel(s)
			if err != nil {
				return Off, fmt.Errorf("%s: %w", name, err)
			}
			return l, nil
		}
	}
	return Off, nil
}

// FromEnv sets Level and, if a buffer size is given, Trace, from the Env
// variables above. Dumps go to files with the given prefix; without one a
// Recorder dumps only when asked.
func (c *Config) FromEnv() error {
	level, err := LevelFromEnv()
	if err != nil {
		return err
	}
	c.Level = level
	size, name, err := numberFromEnv(EnvTraceSize, EnvTorchTrace)
	if err != nil {
		return err
	}
	if size < 0 || size > trace.MaxEntries {
		return fmt.Errorf("pg: %s = %d, want 0 to %d", name, size, trace.MaxEntries)
	}
	if size == 0 {
		return nil
	}
	recorder := trace.Config{Entries: size, Log: logOrStderr(c.Log)}
	prefix := os.Getenv(EnvTraceFile)
	if prefix == "" {
		prefix = os.Getenv(EnvTorchFile)
	}
	onFail, name, err := numberFromEnv(EnvTraceOnFail, EnvTorchOnFail)
	if err != nil {
		return err
	}
	if prefix != "" && (onFail != 0 || name == "") {
		recorder.Dump = trace.Files(prefix)
	}
	c.Trace = &recorder
	return nil
}

// numberFromEnv is the value of the first variable that is set, and its name;
// none: 0 and "".
func numberFromEnv(names ...string) (int, string, error) {
	for _, name := range names {
		s := os.Getenv(name)
		if s == "" {
			continue
		}
		n, err := strconv.Atoi(s)
		if err != nil {
			return 0, name, fmt.Errorf("pg: %s = %q, want a number", name, s)
		}
		return n, name, nil
	}
	return 0, "", nil
}
