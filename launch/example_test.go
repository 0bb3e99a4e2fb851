package launch_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/skerry-ft/skerry/launch"
)

// A program that starts two replicas of a command, and says which rank was the cause if the job
// has failed.
func ExampleLauncher_Run() {
	// launch.Init() stands at the top of main.
	l, err := launch.New(launch.Config{Command: []string{"sh", "-c", "echo replica $REPLICA_GROUP_ID trains"}, Replicas: 2, MaxRestarts: 10, Stderr: os.Stderr})
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := l.Run(context.Background())
	if e, ok := errors.AsType[*launch.JobError](err); ok {
		fmt.Println("the cause:", e.Cause)
	}
	fmt.Println(len(report.Replicas), "replicas,", report.Replicas[0].Outcome, err)
	// Output: 2 replicas, done <nil>
}

// A job is given another replica while it runs; one that is over is not.
func ExampleLauncher_Scale() {
	l, err := launch.New(launch.Config{Command: []string{"sh", "-c", "exec sleep 1000"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan launch.Report)
	go func() {
		report, _ := l.Run(context.Background()) // its replicas say how they ended
		done <- report
	}()
	fmt.Println(l.Scale(context.Background(), 2))
	l.Kill()
	fmt.Println(len((<-done).Replicas), "replicas")
	fmt.Println(errors.Is(l.Scale(context.Background(), 3), launch.ErrOver))
	// Output:
	// <nil>
	// 2 replicas
	// true
}
