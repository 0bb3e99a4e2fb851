// Package diagnose asks NCCL how it is: its RAS service, which knows of a whole job, and
// the end of its log. Package nccl puts the answers into its errors and dumps.
package diagnose

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// defaultRAS is where the library's RAS service listens, unless
// NCCL_RAS_ADDR says otherwise.
const defaultRAS = "localhost:28028"

// Bounds of RAS's answer, and of its handshake.
const (
	maxRASBytes = 64 << 10
	maxRASLine  = 1 << 10
)

// RASFromEnv is where to ask RAS: NCCL_RAS_ADDR, or localhost:28028, or nothing
// if NCCL_RAS_ENABLE is 0.
func RASFromEnv() string {
	if os.Getenv("NCCL_RAS_ENABLE") == "0" {
		return ""
	}
	return cmp.Or(os.Getenv("NCCL_RAS_ADDR"), defaultRAS)
}

// AskRAS asks the RAS service of a job of NCCL 2.24 or later how the job is: its
// communicators, and the ranks that are missing, late or in error. It ends with
// ctx; what came until then, at most 64 KiB, is returned beside the error.
//
// Source: NVIDIA's NCCL user guide, "RAS", and the protocol of its ncclras
// client: lines of text; the answer ends with the connection.
func AskRAS(ctx context.Context, address string) (string, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return "", fmt.Errorf("ask RAS: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) }) //nolint:errcheck // it is being closed
	defer stop()
	text, err := askRAS(ctx, conn)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		err = fmt.Errorf("ask RAS at %s: %w", address, err)
	}
	return text, err
}

func askRAS(ctx context.Context, conn net.Conn) (string, error) {
	r := bufio.NewReaderSize(conn, maxRASLine)
	say := func(line, want string) error {
		if _, err := io.WriteString(conn, line+"\n"); err != nil {
			return err
		}
		got, err := r.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("after %q: %w", line, err)
		}
		if !strings.HasPrefix(strings.ToUpper(string(got)), want) {
			return fmt.Errorf("answer to %q is %.80q, want %q", line, got, want)
		}
		return nil
	}
	if err := say("CLIENT PROTOCOL 2", "SERVER PROTOCOL "); err != nil {
		return "", err
	}
	seconds := 1 // that the service waits for other processes; 0 would be for ever
	if deadline, ok := ctx.Deadline(); ok {
		seconds = max(seconds, int(time.Until(deadline)/time.Second))
	}
	if err := say("TIMEOUT "+strconv.Itoa(seconds), "OK"); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, "VERBOSE STATUS\n"); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxRASBytes))
	return strings.ToValidUTF8(string(text), "?"), err
}

// maxDebugBytes bounds what is attached of the library's log.
const maxDebugBytes = 64 << 10

// DebugFileFromEnv is where the library of this process logs: NCCL_DEBUG_FILE,
// with the host's name for %h and the process id for %p. Source: NVIDIA's NCCL
// user guide, "Environment Variables".
func DebugFileFromEnv() string {
	name := os.Getenv("NCCL_DEBUG_FILE")
	if name == "" || strings.HasPrefix(name, "/dev/") {
		return ""
	}
	host, err := os.Hostname()
	if err != nil {
		return ""
	}
	host, _, _ = strings.Cut(host, ".")
	return strings.NewReplacer("%h", host, "%p", strconv.Itoa(os.Getpid()), "%%", "%").Replace(name)
}

// Tail is the end of a file, at most 64 KiB, or nothing.
func Tail(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return "" // the library has written nothing, or nowhere
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	b, err := io.ReadAll(io.NewSectionReader(f, max(info.Size()-maxDebugBytes, 0), maxDebugBytes))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(b), "?")
}
