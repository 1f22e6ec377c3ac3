"""Addresses."""

from django.urls import path

from examples.django_app import views

urlpatterns = [
    path("sessions/<str:session>/answer", views.answer),
    path("tasks/<str:task>", views.task),
    path("tasks/<str:task>/events", views.events),
]
