//go:build tools

// Package tools names the program that build.sh builds, so that go.mod has what it needs.
package tools

import _ "helm.sh/helm/v4/cmd/helm"
