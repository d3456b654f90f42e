//! What is shipped to deploy the program: the image, the chart and the plain manifests, what they permit, the dashboard.

mod accepted;
mod audit;
mod chart;
mod course;
mod dashboard;
mod image;
mod manifests;
mod permissions;
mod shipped;
