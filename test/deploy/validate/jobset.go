package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// jobSet has the fields of jobset.x-k8s.io/v1alpha2, as its API reference names them
// (https://jobset.sigs.k8s.io/docs/reference/jobset.v1alpha2/). The types of its own module are
// not used: Go's module proxy does not hand them to all who build this.
type jobSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		ReplicatedJobs []replicatedJob `json:"replicatedJobs"`
		Network        *struct {
			EnableDNSHostnames       *bool  `json:"enableDNSHostnames"`
			Subdomain                string `json:"subdomain"`
			PublishNotReadyAddresses *bool  `json:"publishNotReadyAddresses"`
		} `json:"network"`
		SuccessPolicy *struct {
			Operator             string   `json:"operator"`
			TargetReplicatedJobs []string `json:"targetReplicatedJobs"`
		} `json:"successPolicy"`
		FailurePolicy *struct {
			MaxRestarts     int32         `json:"maxRestarts"`
			RestartStrategy string        `json:"restartStrategy"`
			Rules           []failureRule `json:"rules"`
		} `json:"failurePolicy"`
		StartupPolicy *struct {
			StartupPolicyOrder string `json:"startupPolicyOrder"`
		} `json:"startupPolicy"`
		Suspend     *bool `json:"suspend"`
		Coordinator *struct {
			ReplicatedJob string `json:"replicatedJob"`
			JobIndex      int    `json:"jobIndex"`
			PodIndex      int    `json:"podIndex"`
		} `json:"coordinator"`
		ManagedBy               *string `json:"managedBy"`
		TTLSecondsAfterFinished *int32  `json:"ttlSecondsAfterFinished"`
	} `json:"spec"`
}

type replicatedJob struct {
	Name      string                  `json:"name"`
	GroupName string                  `json:"groupName"`
	Replicas  *int32                  `json:"replicas"`
	Template  batchv1.JobTemplateSpec `json:"template"`
	DependsOn []struct {
		Name   string `json:"name"`
		Status string `json:"status"`
	} `json:"dependsOn"`
}

type failureRule struct {
	Name                 string   `json:"name"`
	Action               string   `json:"action"`
	OnJobFailureReasons  []string `json:"onJobFailureReasons"`
	TargetReplicatedJobs []string `json:"targetReplicatedJobs"`
}

// jobSetObject checks a JobSet by what its reference says, and the Jobs that it makes by the
// rules of Kubernetes.
func jobSetObject(text []byte) error {
	var s jobSet
	if err := yaml.UnmarshalStrict(text, &s); err != nil {
		return err
	}
	if len(s.Spec.ReplicatedJobs) == 0 {
		return errors.New("spec.replicatedJobs: none, want one at least")
	}
	err := s.policies()
	for i, r := range s.Spec.ReplicatedJobs {
		if problem := s.job(r); problem != nil {
			err = errors.Join(err, fmt.Errorf("spec.replicatedJobs[%d]: %w", i, problem))
		}
	}
	return err
}

// job checks the last of the Jobs that are made of a template: its name is the longest.
func (s *jobSet) job(r replicatedJob) error {
	last := int32(0)
	if r.Replicas != nil {
		last = *r.Replicas - 1
	}
	if last < 0 {
		return fmt.Errorf("replicas: %d, want 1 at least", last+1)
	}
	j := batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: r.Template.ObjectMeta, Spec: r.Template.Spec,
	}
	j.Name = s.Name + "-" + r.Name + "-" + strconv.Itoa(int(last))
	var err error
	for _, problem := range validation.IsDNS1035Label(j.Name) {
		err = errors.Join(err, fmt.Errorf("name: its Job is called %s: %s", j.Name, problem))
	}
	text, problem := yaml.Marshal(j)
	if problem == nil {
		problem = kubernetesObject(text)
	}
	if problem != nil {
		err = errors.Join(err, fmt.Errorf("template: %w", problem))
	}
	return err
}

// policies checks the values that the reference lists.
func (s *jobSet) policies() (err error) {
	refuse := func(field, value string, want ...string) {
		if !slices.Contains(want, value) {
			err = errors.Join(err, fmt.Errorf("spec.%s: %q, want one of %q", field, value, want))
		}
	}
	var names []string
	for _, r := range s.Spec.ReplicatedJobs {
		if slices.Contains(names, r.Name) {
			err = errors.Join(err, fmt.Errorf("spec.replicatedJobs: two are called %q", r.Name))
		}
		for _, d := range r.DependsOn {
			refuse("replicatedJobs.dependsOn.name", d.Name, names...)
			refuse("replicatedJobs.dependsOn.status", d.Status, "Ready", "Complete")
		}
		names = append(names, r.Name)
	}
	if p := s.Spec.SuccessPolicy; p != nil {
		refuse("successPolicy.operator", p.Operator, "All", "Any")
		for _, name := range p.TargetReplicatedJobs {
			refuse("successPolicy.targetReplicatedJobs", name, names...)
		}
	}
	if p := s.Spec.StartupPolicy; p != nil {
		refuse("startupPolicy.startupPolicyOrder", p.StartupPolicyOrder, "AnyOrder", "InOrder")
	}
	if p := s.Spec.FailurePolicy; p != nil {
		if p.MaxRestarts < 0 {
			err = errors.Join(err, fmt.Errorf("spec.failurePolicy.maxRestarts: %d, want 0 or more", p.MaxRestarts))
		}
		refuse("failurePolicy.restartStrategy", p.RestartStrategy, "", "Recreate", "BlockingRecreate")
		for _, r := range p.Rules {
			refuse("failurePolicy.rules.action", r.Action, "FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts")
			for _, name := range r.TargetReplicatedJobs {
				refuse("failurePolicy.rules.targetReplicatedJobs", name, names...)
			}
		}
	}
	if c := s.Spec.Coordinator; c != nil {
		refuse("coordinator.replicatedJob", c.ReplicatedJob, names...)
	}
	return err
}
