//! The suite of kube-rs against the server of the environment variable KUBECONFIG.

#![cfg(test)]

mod cluster;
mod connect;
mod controllers;
mod custom;
mod objects;
mod watches;
