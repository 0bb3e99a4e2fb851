package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/apps"
	appsv1 "k8s.io/kubernetes/pkg/apis/apps/v1"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/batch"
	batchv1 "k8s.io/kubernetes/pkg/apis/batch/v1"
	batchvalidation "k8s.io/kubernetes/pkg/apis/batch/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/networking"
	networkingv1 "k8s.io/kubernetes/pkg/apis/networking/v1"
	networkingvalidation "k8s.io/kubernetes/pkg/apis/networking/validation"
	"k8s.io/kubernetes/pkg/apis/policy"
	policyv1 "k8s.io/kubernetes/pkg/apis/policy/v1"
	policyvalidation "k8s.io/kubernetes/pkg/apis/policy/validation"
)

// decoder decodes objects of Kubernetes as its API server does: strictly, with the defaults
// filled in, into the types that its rules are written for.
func decoder() (runtime.Decoder, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		core.AddToScheme, corev1.AddToScheme, apps.AddToScheme, appsv1.AddToScheme,
		batch.AddToScheme, batchv1.AddToScheme, networking.AddToScheme, networkingv1.AddToScheme,
		policy.AddToScheme, policyv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(), nil
}

// kubernetesObject checks one object of Kubernetes by the rules of its API server.
func kubernetesObject(text []byte) error {
	d, err := decoder()
	if err != nil {
		return err
	}
	obj, _, err := d.Decode(text, nil, nil)
	if err != nil {
		return err
	}
	meta, ok := obj.(metav1.ObjectMetaAccessor)
	if !ok {
		return fmt.Errorf("%T has no metadata", obj)
	}
	if o := meta.GetObjectMeta(); o.GetNamespace() == "" {
		o.SetNamespace(metav1.NamespaceDefault) // kubectl's
	}
	problems, err := rules(obj)
	if err != nil {
		return err
	}
	return problems.ToAggregate()
}

// rules are those for a new object.
func rules(obj runtime.Object) (field.ErrorList, error) {
	switch o := obj.(type) {
	case *core.Service:
		if o.Spec.ClusterIP != "" && len(o.Spec.ClusterIPs) == 0 {
			o.Spec.ClusterIPs = []string{o.Spec.ClusterIP} // the API server does that, too
		}
		return corevalidation.ValidateServiceCreate(o), nil
	case *core.ConfigMap:
		return corevalidation.ValidateConfigMap(o), nil
	case *core.Secret:
		return corevalidation.ValidateSecret(o), nil
	case *apps.StatefulSet:
		return appsvalidation.ValidateStatefulSet(o, pod.GetValidationOptionsFromPodTemplate(&o.Spec.Template, nil)), nil
	case *batch.Job:
		generateSelector(o)
		return batchvalidation.ValidateJob(o, batchvalidation.JobValidationOptions{
			PodValidationOptions:  pod.GetValidationOptionsFromPodTemplate(&o.Spec.Template, nil),
			RequirePrefixedLabels: true,
		}), nil
	case *networking.NetworkPolicy:
		return networkingvalidation.ValidateNetworkPolicy(o, networkingvalidation.NetworkPolicyValidationOptions{}), nil
	case *policy.PodDisruptionBudget:
		named := corevalidation.ValidateObjectMeta(&o.ObjectMeta, true, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
		return append(named, policyvalidation.ValidatePodDisruptionBudget(o, policyvalidation.PodDisruptionBudgetValidationOptions{})...), nil
	default:
		return nil, fmt.Errorf("%T: no rules for such an object; add them to test/deploy/validate/kubernetes.go", obj)
	}
}

// generateSelector gives a Job the selector and the labels that the API server generates for
// it: the rules want them.
func generateSelector(j *batch.Job) {
	const uid = "00000000-0000-4000-8000-000000000000"
	j.UID = uid
	if j.Spec.Template.Labels == nil {
		j.Spec.Template.Labels = make(map[string]string)
	}
	for key, value := range map[string]string{
		batch.ControllerUidLabel: uid, batch.LegacyControllerUidLabel: uid,
		batch.JobNameLabel: j.Name, batch.LegacyJobNameLabel: j.Name,
	} {
		j.Spec.Template.Labels[key] = value
	}
	if j.Spec.Selector == nil {
		j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{batch.ControllerUidLabel: uid}}
	}
}
