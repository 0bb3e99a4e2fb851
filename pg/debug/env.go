package debug

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/skerry-ft/skerry/pg/trace"
)

// The variables that LevelFromEnv and Config.FromEnv read; Config.FromEnv says what
// values they take. Skerry's own win over torch's.
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
	s, name := firstFromEnv(EnvLevel, EnvTorchLevel)
	l, err := ParseLevel(s)
	if err != nil {
		return Off, fmt.Errorf("%s: %w", name, err)
	}
	return l, nil
}

// FromEnv sets Level and Trace from the environment. Of two names the first that is
// set counts:
//
//	SKERRY_DISTRIBUTED_DEBUG, else TORCH_DISTRIBUTED_DEBUG
//	    OFF, the default, INFO or DETAIL: the Level.
//	SKERRY_TRACE_BUFFER_SIZE, else TORCH_NCCL_TRACE_BUFFER_SIZE
//	    How many ops the flight recorder of each group remembers, up to 1048576.
//	    0, the default: no flight recorder.
//	SKERRY_TRACE_DUMP_FILE, else TORCH_NCCL_DEBUG_INFO_TEMP_FILE
//	    What the names of its dumps begin with, see trace.Files. Not set, the
//	    default: no files.
//	SKERRY_TRACE_DUMP_ON_ERROR, else TORCH_NCCL_DUMP_ON_TIMEOUT
//	    1, the default: a group that breaks writes a dump. 0: the program alone
//	    asks for dumps, by Recorder.Dump.
//
// A variable that has no effect for lack of another one, a dump file without a buffer
// size or dumps on error without a file, is an error that names both. One of torch's may
// be set for torch's sake: a warning in Log names both. SKERRY_TRACE_BUFFER_SIZE=0 turns
// the flight recorder off whatever else is set.
func (c *Config) FromEnv() error {
	level, err := LevelFromEnv()
	if err != nil {
		return err
	}
	size, sizeName, err := numberFromEnv(EnvTraceSize, EnvTorchTrace)
	if err != nil {
		return err
	}
	if size < 0 || size > trace.MaxEntries {
		return fmt.Errorf("pg: %s = %d, want 0 to %d", sizeName, size, trace.MaxEntries)
	}
	onFail, onFailName, err := switchFromEnv(EnvTraceOnFail, EnvTorchOnFail)
	if err != nil {
		return err
	}
	prefix, prefixName := firstFromEnv(EnvTraceFile, EnvTorchFile)
	switch {
	case size == 0 && sizeName == EnvTraceSize: // it is not wanted
	case size == 0 && prefix != "":
		err = c.needs(prefixName, EnvTraceSize, EnvTorchTrace)
	case size == 0 && onFail:
		err = c.needs(onFailName, EnvTraceSize, EnvTorchTrace)
	case onFail && prefix == "":
		err = c.needs(onFailName, EnvTraceFile, EnvTorchFile)
	}
	if err != nil {
		return err
	}
	c.Level = level
	if size == 0 {
		return nil
	}
	c.Trace = &trace.Config{Entries: size, Log: logOrStderr(c.Log)}
	if prefix != "" && (onFail || onFailName == "") {
		c.Trace.Dump = trace.Files(prefix)
	}
	return nil
}

// needs is what becomes of a variable that is set, and has no effect without another one:
// an error if it is Skerry's, else a warning.
func (c *Config) needs(set, missing, orTorchs string) error {
	if strings.HasPrefix(set, "SKERRY_") {
		return fmt.Errorf("pg: %s has no effect without %s (or %s)", set, missing, orTorchs)
	}
	log := logOrStderr(c.Log)
	log.Warn().Str("set", set).Str("missing", missing).Msg("variable has no effect without another one")
	return nil
}

// firstFromEnv is the value of the first variable that is set, and its name; none: "".
func firstFromEnv(names ...string) (value, name string) {
	for _, name := range names {
		if s := os.Getenv(name); s != "" {
			return s, name
		}
	}
	return "", ""
}

// switchFromEnv is firstFromEnv of a switch, with the words that torch takes for it.
func switchFromEnv(names ...string) (bool, string, error) {
	s, name := firstFromEnv(names...)
	switch strings.ToLower(s) {
	case "1", "t", "true", "y", "yes":
		return true, name, nil
	case "", "0", "f", "false", "n", "no":
		return false, name, nil
	}
	return false, name, fmt.Errorf("pg: %s = %q, want 0 or 1", name, s)
}

// numberFromEnv is firstFromEnv of a number; none: 0.
func numberFromEnv(names ...string) (int, string, error) {
	s, name := firstFromEnv(names...)
	if s == "" {
		return 0, "", nil
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, name, fmt.Errorf("pg: %s = %q, want a number", name, s)
	}
	return n, name, nil
}
